// kafkajs against one cluster: admin, producers of every codec it has, groups, transactions.
"use strict";
const assert = require("node:assert/strict");
const { Kafka, CompressionTypes, logLevel, Partitioners, ConfigResourceTypes } = require("kafkajs");

const kafka = new Kafka({
  clientId: "exercise",
  brokers: process.env.KAFKA.split(","),
  logLevel: logLevel.NOTHING,
  retry: { retries: 8, initialRetryTime: 50 },
});
const replicas = Number(process.env.REPLICAS || 1);
const admin = kafka.admin();
let number = 0;
const unique = (name) => `${name}-${process.pid}-${Date.now()}-${number++}`;

async function newTopic(partitions = 1, configEntries = []) {
  const topic = unique("topic");
  assert.equal(
    await admin.createTopics({
      waitForLeaders: true,
      topics: [{ topic, numPartitions: partitions, replicationFactor: replicas, configEntries }],
    }),
    true,
  );
  return topic;
}
const newProducer = async (options = {}) => {
  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner, ...options });
  await producer.connect();
  return producer;
};
const until = async (condition, what) => {
  const deadline = Date.now() + 20000;
  while (!(await condition())) {
    assert(Date.now() < deadline, `waited 20 s for ${what}`);
    await new Promise((done) => setTimeout(done, 20));
  }
};
async function newConsumer(groupId, topic, onMessage, options = {}) {
  const consumer = kafka.consumer({ maxWaitTimeInMs: 100, groupId, heartbeatInterval: 300, sessionTimeout: 6000, ...options });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({ autoCommitInterval: 200, eachMessage: async (event) => onMessage(event) });
  return consumer;
}
async function readAll(topic, count, options = {}) {
  const found = [];
  const consumer = await newConsumer(unique("group"), topic, ({ message }) => found.push(message), options);
  await until(() => found.length >= count, `${count} records, there are ${found.length}`);
  await consumer.disconnect();
  return found;
}

const tests = {
  async "topics are created, described, widened, deleted"() {
    const topic = await newTopic(2, [{ name: "cleanup.policy", value: "compact" }]);
    assert((await admin.listTopics()).includes(topic));
    assert.equal(await admin.createTopics({ topics: [{ topic, numPartitions: 1 }] }), false);
    await admin.createPartitions({ topicPartitions: [{ topic, count: 5 }] });
    await until(async () => {
      const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
      return topics[0].partitions.length === 5;
    }, "five partitions");
    await admin.deleteTopics({ topics: [topic] });
    await until(async () => !(await admin.listTopics()).includes(topic), "the topic's end");
  },
  async "the cluster and its configuration are described and altered"() {
    const cluster = await admin.describeCluster();
    assert(cluster.brokers.length >= 1 && cluster.clusterId);
    const topic = await newTopic();
    const resource = { type: ConfigResourceTypes.TOPIC, name: topic };
    await admin.alterConfigs({
      validateOnly: false,
      resources: [{ ...resource, configEntries: [{ name: "retention.ms", value: "12345" }] }],
    });
    await until(async () => {
      const described = await admin.describeConfigs({ includeSynonyms: true, resources: [resource] });
      const entries = described.resources[0].configEntries;
      return entries.find((entry) => entry.configName === "retention.ms").configValue === "12345";
    }, "the altered configuration");
  },
  async "records come back as they were sent, of each codec"() {
    for (const compression of [CompressionTypes.None, CompressionTypes.GZIP]) {
      const topic = await newTopic();
      const producer = await newProducer();
      const messages = [...Array(200).keys()].map((n) => ({
        key: n % 3 ? `key-${n}` : null,
        value: n % 7 ? `value-${n}`.repeat(20) : null,
        headers: n % 2 ? { trace: `t${n}`, many: ["a", "b"] } : {},
        timestamp: String(1700000000000 + n),
      }));
      const results = await producer.send({ topic, messages, compression, acks: -1 });
      assert.equal(results[0].errorCode, 0);
      assert.equal(results[0].baseOffset, "0");
      const found = await readAll(topic, 200);
      found.forEach((message, n) => {
        assert.equal(message.offset, String(n));
        assert.equal(message.key && message.key.toString(), messages[n].key);
        assert.equal(message.value && message.value.toString(), messages[n].value);
        assert.equal(message.timestamp, messages[n].timestamp);
        if (n % 2) assert.deepEqual(message.headers.many.map(String), ["a", "b"]);
      });
      await producer.disconnect();
    }
  },
  async "an idempotent producer"() {
    const topic = await newTopic(3);
    const producer = await newProducer({ idempotent: true, maxInFlightRequests: 1 });
    for (let n = 0; n < 30; n++) await producer.send({ topic, messages: [{ key: `k${n}`, value: `v${n}` }] });
    const found = await readAll(topic, 30);
    assert.equal(new Set(found.map((message) => message.value.toString())).size, 30);
    await producer.disconnect();
  },
  async "acks 0 and 1, sendBatch over topics"() {
    const [one, two] = [await newTopic(), await newTopic()];
    const producer = await newProducer();
    await producer.send({ topic: one, acks: 0, messages: [{ value: "a" }] });
    await producer.sendBatch({
      acks: 1,
      topicMessages: [
        { topic: one, messages: [{ value: "b" }] },
        { topic: two, messages: [{ value: "c" }] },
      ],
    });
    assert.deepEqual((await readAll(one, 2)).map((message) => message.value.toString()), ["a", "b"]);
    assert.equal((await readAll(two, 1))[0].value.toString(), "c");
    await producer.disconnect();
  },
  async "a topic is created by asking for it"() {
    const topic = unique("auto");
    const producer = await newProducer({ allowAutoTopicCreation: true });
    await producer.send({ topic, messages: [{ value: "x" }] });
    assert.equal((await readAll(topic, 1)).length, 1);
    await producer.disconnect();
  },
  async "a group of two shares, rebalances, resumes from commits"() {
    const topic = await newTopic(4);
    const groupId = unique("group");
    const producer = await newProducer();
    const write = (name) =>
      producer.send({
        topic,
        messages: [...Array(40).keys()].map((n) => ({ partition: n % 4, value: `${name}-${n}` })),
      });
    const owned = {};
    const read = { one: [], two: [], three: [] };
    const member = async (name) => {
      const consumer = kafka.consumer({ maxWaitTimeInMs: 100, groupId, heartbeatInterval: 200, sessionTimeout: 6000 });
      consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
        owned[name] = payload.memberAssignment[topic] || [];
      });
      await consumer.connect();
      await consumer.subscribe({ topics: [topic], fromBeginning: true });
      await consumer.run({ eachMessage: async ({ message }) => read[name].push(message.value.toString()) });
      return consumer;
    };
    await write("first");
    const one = await member("one");
    await until(() => read.one.length === 40, "the first forty");
    await one.stop();
    await one.run({ eachMessage: async ({ message }) => read.one.push(message.value.toString()) });
    const two = await member("two");
    await until(() => owned.one?.length === 2 && owned.two?.length === 2, "two partitions each");
    await write("second");
    await until(() => read.one.length + read.two.length === 80, "the second forty");
    const group = (await admin.describeGroups([groupId])).groups[0];
    assert.equal(group.state, "Stable");
    assert.equal(group.members.length, 2);
    assert((await admin.listGroups()).groups.some((each) => each.groupId === groupId));
    await one.disconnect();
    await until(() => owned.two.length === 4, "all four for the one who stayed");
    await two.disconnect();
    await write("third");
    const three = await member("three");
    await until(() => read.three.length === 40, "the third forty");
    assert(read.three.every((value) => value.startsWith("third")));
    await three.disconnect();
    const offsets = await admin.fetchOffsets({ groupId, topics: [topic] });
    assert.equal(offsets[0].partitions.reduce((sum, each) => sum + Number(each.offset), 0), 120);
    await admin.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: "3" }] });
    await admin.resetOffsets({ groupId, topic, earliest: true });
    assert.equal((await admin.deleteGroups([groupId]))[0].errorCode, 0);
    await producer.disconnect();
  },
  async "seek, pause, resume, batches"() {
    const topic = await newTopic();
    const producer = await newProducer();
    await producer.send({ topic, messages: [...Array(20).keys()].map((n) => ({ value: `v${n}` })) });
    const found = [];
    const consumer = kafka.consumer({ maxWaitTimeInMs: 100, groupId: unique("group") });
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    await consumer.run({
      eachBatchAutoResolve: true,
      eachBatch: async ({ batch }) => found.push(...batch.messages.map((message) => Number(message.offset))),
    });
    consumer.seek({ topic, partition: 0, offset: "15" });
    await until(() => found.length >= 5, "five records");
    assert.deepEqual(found, [15, 16, 17, 18, 19]);
    consumer.pause([{ topic }]);
    await producer.send({ topic, messages: [{ value: "more" }] });
    await new Promise((done) => setTimeout(done, 500));
    assert.equal(found.length, 5);
    consumer.resume([{ topic }]);
    await until(() => found.length === 6, "the sixth");
    await consumer.disconnect();
    await producer.disconnect();
  },
  async "offsets by time, deleted records"() {
    const topic = await newTopic();
    const producer = await newProducer();
    await producer.send({
      topic,
      messages: [...Array(10).keys()].map((n) => ({ value: `v${n}`, timestamp: String(1700000000000 + n * 1000) })),
    });
    assert.equal((await admin.fetchTopicOffsetsByTimestamp(topic, 1700000004500))[0].offset, "5");
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: "4" }] });
    const [offsets] = await admin.fetchTopicOffsets(topic);
    assert.deepEqual([offsets.low, offsets.high], ["4", "10"]);
    await producer.disconnect();
  },
  async "transactions commit, abort, and carry offsets"() {
    const [from, to] = [await newTopic(), await newTopic()];
    const groupId = unique("group");
    const producer = await newProducer({
      transactionalId: unique("tx"),
      idempotent: true,
      maxInFlightRequests: 1,
    });
    for (let n = 0; n < 6; n++) {
      const transaction = await producer.transaction();
      await transaction.send({ topic: to, messages: [{ value: `${n}-${n % 2 ? "aborted" : "committed"}` }] });
      await transaction.sendOffsets({
        consumerGroupId: groupId,
        topics: [{ topic: from, partitions: [{ partition: 0, offset: String(n + 1) }] }],
      });
      await (n % 2 ? transaction.abort() : transaction.commit());
    }
    const committed = await readAll(to, 3, { readUncommitted: false });
    assert.deepEqual(committed.map((message) => message.value.toString()), ["0-committed", "2-committed", "4-committed"]);
    assert.equal((await readAll(to, 6, { readUncommitted: true })).length, 6);
    await until(async () => {
      const [offsets] = await admin.fetchOffsets({ groupId, topics: [from] });
      return offsets.partitions[0].offset === "5";
    }, "the committed offset");
    await producer.disconnect();
  },
  async "a transactional producer is fenced by its successor"() {
    const topic = await newTopic();
    const transactionalId = unique("tx");
    const options = { transactionalId, idempotent: true, maxInFlightRequests: 1 };
    const first = await newProducer(options);
    const old = await first.transaction();
    await old.send({ topic, messages: [{ value: "old" }] });
    const second = await newProducer(options);
    const transaction = await second.transaction();
    await transaction.send({ topic, messages: [{ value: "new" }] });
    await assert.rejects(old.commit(), /epoch|fenced/i);
    await transaction.commit();
    const found = await readAll(topic, 1, { readUncommitted: false });
    assert.equal(found[0].value.toString(), "new");
    await first.disconnect();
    await second.disconnect();
  },
  async "what cannot be is refused by its name"() {
    const producer = await newProducer({ retry: { retries: 1 } });
    const topic = await newTopic(1, [{ name: "max.message.bytes", value: "1000" }]);
    await assert.rejects(producer.send({ topic, messages: [{ value: "x".repeat(5000) }] }), { type: "MESSAGE_TOO_LARGE" });
    await assert.rejects(
      admin.createTopics({ topics: [{ topic: unique("t"), numPartitions: 1, replicationFactor: 77 }] }),
      (error) => error.errors[0].type === "INVALID_REPLICATION_FACTOR",
    );
    await producer.disconnect();
  },
};

(async () => {
  await admin.connect();
  let failed = 0;
  for (const [name, test] of Object.entries(tests)) {
    const started = Date.now();
    try {
      await test();
      console.log(`ok      ${name} (${Date.now() - started} ms)`);
    } catch (error) {
      failed++;
      console.log(`FAILED  ${name} (${Date.now() - started} ms)\n${error.stack}`);
    }
  }
  await admin.disconnect();
  console.log(`${Object.keys(tests).length - failed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
})();
