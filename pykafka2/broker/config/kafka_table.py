"""Tables of the topic, broker, group and metrics options of Apache Kafka 4.4.0.

Each line has a name, a type (with * if a running broker accepts a new value), a default, and the valid values
as Kafka prints them. The conformance stage compares all of it with Kafka's jars. Longer than other modules
because it is a table. Data only; keys.py reads it.
"""

from __future__ import annotations

from typing import Final

TOPIC_TABLE: Final = """\
cleanup.policy LIST delete [compact, delete]
compression.gzip.level INT* -1 [1,...,9] or -1
compression.lz4.level INT* 9 [1,...,17]
compression.type STRING* producer [uncompressed, zstd, lz4, snappy, gzip, producer]
compression.zstd.level INT* 3 [-131072,...,22]
delete.retention.ms LONG 86400000 [0,...]
errors.deadletterqueue.group.enable BOOLEAN false
file.delete.delay.ms LONG 60000 [0,...]
flush.messages LONG 9223372036854775807 [1,...]
flush.ms LONG 9223372036854775807 [0,...]
follower.replication.throttled.replicas LIST "" [partitionId]:[brokerId],[partitionId]:[brokerId],...
index.interval.bytes INT 4096 [0,...]
leader.replication.throttled.replicas LIST "" [partitionId]:[brokerId],[partitionId]:[brokerId],...
local.retention.bytes LONG -2 [-2,...]
local.retention.ms LONG -2 [-2,...]
max.compaction.lag.ms LONG 9223372036854775807 [1,...]
max.decompressed.message.bytes INT 2147483639 [1,...,2147483639]
max.message.bytes INT 1048588 [0,...]
message.timestamp.after.max.ms LONG 3600000 [0,...]
message.timestamp.before.max.ms LONG 9223372036854775807 [0,...]
message.timestamp.type STRING CreateTime [CreateTime, LogAppendTime]
min.cleanable.dirty.ratio DOUBLE 0.5 [0,...,1]
min.compaction.lag.ms LONG 0 [0,...]
min.insync.replicas INT* 1 [1,...]
preallocate BOOLEAN false
remote.copy.lag.bytes LONG -1 [-1,...]
remote.copy.lag.ms LONG 0 [-1,...]
remote.log.copy.disable BOOLEAN false
remote.log.delete.on.disable BOOLEAN false
remote.storage.enable BOOLEAN false
retention.bytes LONG -1
retention.ms LONG 604800000 [-1,...]
segment.bytes INT 1073741824 [1048576,...]
segment.index.bytes INT 10485760 [4,...]
segment.jitter.ms LONG 0 [0,...]
segment.ms LONG 604800000 [1,...]
unclean.leader.election.enable BOOLEAN* false
"""

BROKER_TABLE: Final = """\
add.partitions.to.txn.retry.backoff.max.ms INT 100 [0,...]
add.partitions.to.txn.retry.backoff.ms INT 20 [1,...]
advertised.listeners LIST null
alter.config.policy.class.name CLASS null
alter.log.dirs.replication.quota.window.num INT 11 [1,...]
alter.log.dirs.replication.quota.window.size.seconds INT 1 [1,...]
authorizer.class.name STRING "" non-null string
auto.create.topics.enable BOOLEAN true
auto.leader.rebalance.enable BOOLEAN true
background.threads INT* 10 [1,...]
broker.heartbeat.interval.ms INT 2000
broker.id INT -1
broker.rack STRING null
broker.session.timeout.ms INT 9000
client.quota.callback.class CLASS null
compression.gzip.level INT* -1 [1,...,9] or -1
compression.lz4.level INT* 9 [1,...,17]
compression.type STRING* producer [uncompressed, zstd, lz4, snappy, gzip, producer]
compression.zstd.level INT* 3 [-131072,...,22]
config.providers LIST* ""
connection.failed.authentication.delay.ms INT 100 [0,...]
connections.max.idle.ms LONG 600000
connections.max.reauth.ms LONG 0
controlled.shutdown.enable BOOLEAN true
controller.listener.names LIST required
controller.quorum.append.linger.ms INT 25 [0,...]
controller.quorum.auto.join.enable BOOLEAN false
controller.quorum.bootstrap.servers LIST "" non-empty list
controller.quorum.election.backoff.max.ms INT 1000 [0,...]
controller.quorum.election.timeout.ms INT 1000 [0,...]
controller.quorum.fetch.max.bytes INT 1048576 [1,...]
controller.quorum.fetch.snapshot.max.bytes INT 1048576 [1,...]
controller.quorum.fetch.timeout.ms INT 2000 [0,...]
controller.quorum.request.timeout.ms INT 2000 [0,...]
controller.quorum.retry.backoff.ms INT 20 [0,...]
controller.quorum.voters LIST "" non-empty list
controller.quota.window.num INT 11 [1,...]
controller.quota.window.size.seconds INT 1 [1,...]
controller.socket.timeout.ms INT 30000
cordoned.log.dirs LIST* ""
create.topic.policy.class.name CLASS null
default.replication.factor INT 1
delegation.token.expiry.check.interval.ms LONG 3600000 [1,...]
delegation.token.expiry.time.ms LONG 86400000 [1,...]
delegation.token.max.lifetime.ms LONG 604800000 [1,...]
delegation.token.secret.key PASSWORD null
delete.records.purgatory.purge.interval.requests INT 1
delete.topic.enable BOOLEAN true
early.start.listeners LIST null
errors.deadletterqueue.auto.create.topics.enable BOOLEAN* false
errors.deadletterqueue.topic.name.prefix STRING* dlq.
fetch.max.bytes INT 57671680 [1024,...]
fetch.purgatory.purge.interval.requests INT 1000
follower.fetch.last.tiered.offset.enable BOOLEAN* false
group.consumer.assignment.interval.ms INT* 1000 [0,...]
group.consumer.assignors LIST uniform,range
group.consumer.heartbeat.interval.ms INT 5000 [1,...]
group.consumer.max.assignment.interval.ms INT 15000 [0,...]
group.consumer.max.heartbeat.interval.ms INT 15000 [1,...]
group.consumer.max.session.timeout.ms INT 60000 [1,...]
group.consumer.max.size INT 2147483647 [1,...]
group.consumer.migration.policy STRING bidirectional (case insensitive) [DISABLED, DOWNGRADE, UPGRADE, \
BIDIRECTIONAL]
group.consumer.min.assignment.interval.ms INT 0 [0,...]
group.consumer.min.heartbeat.interval.ms INT 5000 [1,...]
group.consumer.min.session.timeout.ms INT 45000 [1,...]
group.consumer.session.timeout.ms INT 45000 [1,...]
group.coordinator.append.linger.ms INT -1 [-1,...]
group.coordinator.background.threads INT 2 [1,...]
group.coordinator.cached.buffer.max.bytes INT* 1048588 [524288,...]
group.coordinator.rebalance.protocols LIST classic,consumer,streams [consumer, classic, share, streams]
group.coordinator.threads INT 4 [1,...]
group.initial.rebalance.delay.ms INT 3000
group.max.session.timeout.ms INT 1800000
group.max.size INT 2147483647 [1,...]
group.min.session.timeout.ms INT 6000
group.share.assignment.interval.ms INT* 1000 [0,...]
group.share.assignors LIST simple
group.share.delivery.count.limit INT 5 [2,...,10]
group.share.heartbeat.interval.ms INT 5000 [1,...]
group.share.max.assignment.interval.ms INT 15000 [0,...]
group.share.max.delivery.count.limit INT 10 [5,...,25]
group.share.max.heartbeat.interval.ms INT 15000 [1,...]
group.share.max.partition.max.record.locks INT 4000 [2000,...,10000]
group.share.max.record.lock.duration.ms INT 60000 [30000,...,3600000]
group.share.max.session.timeout.ms INT 60000 [1,...]
group.share.max.share.sessions INT 2000 [1,...]
group.share.max.size INT 200 [1,...,1000]
group.share.min.assignment.interval.ms INT 0 [0,...]
group.share.min.delivery.count.limit INT 2 [2,...,5]
group.share.min.heartbeat.interval.ms INT 5000 [1,...]
group.share.min.partition.max.record.locks INT 100 [100,...,2000]
group.share.min.record.lock.duration.ms INT 15000 [1000,...,30000]
group.share.min.session.timeout.ms INT 45000 [1,...]
group.share.partition.max.record.locks INT 2000 [100,...,10000]
group.share.record.lock.duration.ms INT 30000 [1000,...,3600000]
group.share.session.timeout.ms INT 45000 [1,...]
group.streams.assignment.interval.ms INT* 1000 [0,...]
group.streams.assignors LIST sticky
group.streams.heartbeat.interval.ms INT 5000 [1,...]
group.streams.initial.rebalance.delay.ms INT 3000 [0,...]
group.streams.max.assignment.interval.ms INT 15000 [0,...]
group.streams.max.heartbeat.interval.ms INT 15000 [1,...]
group.streams.max.session.timeout.ms INT 60000 [1,...]
group.streams.max.size INT 2147483647 [1,...]
group.streams.max.standby.replicas INT 2 [0,...]
group.streams.min.assignment.interval.ms INT 0 [0,...]
group.streams.min.heartbeat.interval.ms INT 5000 [1,...]
group.streams.min.session.timeout.ms INT 45000 [1,...]
group.streams.num.standby.replicas INT 0 [0,...]
group.streams.rack.aware.assignment.tags LIST ""
group.streams.session.timeout.ms INT 45000 [1,...]
group.streams.topology.description.plugin.class CLASS null
initial.broker.registration.timeout.ms INT 60000
inter.broker.listener.name STRING null
kafka.metrics.polling.interval.secs INT 10 [1,...]
kafka.metrics.reporters LIST ""
leader.imbalance.check.interval.seconds LONG 300 [1,...]
listener.security.protocol.map STRING* SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:\
SASL_PLAINTEXT
listeners LIST* PLAINTEXT://:9092
log.cleaner.backoff.ms LONG* 15000 [0,...]
log.cleaner.dedupe.buffer.size LONG* 134217728
log.cleaner.delete.retention.ms LONG* 86400000 [0,...]
log.cleaner.enable BOOLEAN true
log.cleaner.io.buffer.load.factor DOUBLE* 0.9
log.cleaner.io.buffer.size INT* 524288 [0,...]
log.cleaner.io.max.bytes.per.second DOUBLE* 1.7976931348623157E308
log.cleaner.max.compaction.lag.ms LONG* 9223372036854775807 [1,...]
log.cleaner.min.cleanable.ratio DOUBLE* 0.5 [0,...,1]
log.cleaner.min.compaction.lag.ms LONG* 0 [0,...]
log.cleaner.threads INT* 1 [0,...]
log.cleanup.policy LIST* delete [compact, delete]
log.dir LIST /tmp/kafka-logs
log.dir.failure.timeout.ms LONG 30000 [1,...]
log.dirs LIST null
log.flush.interval.messages LONG* 9223372036854775807 [1,...]
log.flush.interval.ms LONG* null
log.flush.offset.checkpoint.interval.ms INT 60000 [0,...]
log.flush.scheduler.interval.ms LONG 9223372036854775807
log.flush.start.offset.checkpoint.interval.ms INT 60000 [0,...]
log.index.interval.bytes INT* 4096 [0,...]
log.index.size.max.bytes INT* 10485760 [4,...]
log.local.retention.bytes LONG* -2 [-2,...]
log.local.retention.ms LONG* -2 [-2,...]
log.message.timestamp.after.max.ms LONG* 3600000 [0,...]
log.message.timestamp.before.max.ms LONG* 9223372036854775807 [0,...]
log.message.timestamp.type STRING* CreateTime [CreateTime, LogAppendTime]
log.preallocate BOOLEAN* false
log.remote.copy.lag.bytes LONG* -1 [-1,...]
log.remote.copy.lag.ms LONG* 0 [-1,...]
log.retention.bytes LONG* -1
log.retention.check.interval.ms LONG 300000 [1,...]
log.retention.hours INT 168
log.retention.minutes INT null
log.retention.ms LONG* null
log.roll.hours INT 168 [1,...]
log.roll.jitter.hours INT 0 [0,...]
log.roll.jitter.ms LONG* null
log.roll.ms LONG* null
log.segment.bytes INT* 1073741824 [1048576,...]
log.segment.delete.delay.ms LONG* 60000 [0,...]
max.connection.creation.rate INT* 2147483647 [0,...]
max.connections INT* 2147483647 [0,...]
max.connections.per.ip INT* 2147483647 [0,...]
max.connections.per.ip.overrides STRING* ""
max.decompressed.message.bytes INT* 2147483639 [1,...,2147483639]
max.incremental.fetch.session.cache.slots INT 1000 [0,...]
max.request.partition.size.limit INT 2000 [1,...]
message.max.bytes INT* 1048588 [0,...]
metadata.log.dir STRING null
metadata.log.max.record.bytes.between.snapshots LONG 20971520 [1,...]
metadata.log.max.snapshot.interval.ms LONG 3600000 [0,...]
metadata.log.segment.bytes INT 1073741824 [8388608,...]
metadata.log.segment.ms LONG 604800000
metadata.max.idle.interval.ms INT 500 [0,...]
metadata.max.retention.bytes LONG 104857600
metadata.max.retention.ms LONG 604800000
metric.reporters LIST* org.apache.kafka.common.metrics.JmxReporter
metrics.num.samples INT 2 [1,...]
metrics.recording.level STRING INFO
metrics.sample.window.ms LONG 30000 [1,...]
min.insync.replicas INT* 1 [1,...]
node.id INT required [0,...]
num.io.threads INT* 8 [1,...]
num.network.threads INT* 3 [1,...]
num.partitions INT 1 [1,...]
num.recovery.threads.per.data.dir INT* 2 [1,...]
num.replica.alter.log.dirs.threads INT null
num.replica.fetchers INT* 1 [1,...]
offset.metadata.max.bytes INT 4096
offsets.commit.timeout.ms INT 5000 [1,...]
offsets.load.buffer.size INT 5242880 [1,...]
offsets.retention.check.interval.ms LONG 600000 [1,...]
offsets.retention.minutes INT 10080 [1,...]
offsets.topic.compression.codec INT 0
offsets.topic.num.partitions INT 50 [1,...]
offsets.topic.replication.factor SHORT 3 [1,...]
offsets.topic.segment.bytes INT 104857600 [1,...]
principal.builder.class CLASS* org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
process.roles LIST required [broker, controller]
producer.id.expiration.ms INT* 86400000 [1,...]
producer.purgatory.purge.interval.requests INT 1000
queued.max.request.bytes LONG -1
queued.max.requests INT 500 [1,...]
quota.window.num INT 11 [1,...]
quota.window.size.seconds INT 1 [1,...]
remote.fetch.max.wait.ms INT* 500 [1,...]
remote.list.offsets.request.timeout.ms LONG* 30000 [1,...]
remote.log.index.file.cache.total.size.bytes LONG* 1073741824 [1,...]
remote.log.manager.copier.thread.pool.size INT* 10 [1,...]
remote.log.manager.copy.max.bytes.per.second LONG* 9223372036854775807 [1,...]
remote.log.manager.copy.quota.window.num INT 11 [1,...]
remote.log.manager.copy.quota.window.size.seconds INT 1 [1,...]
remote.log.manager.expiration.thread.pool.size INT* 10 [1,...]
remote.log.manager.fetch.max.bytes.per.second LONG* 9223372036854775807 [1,...]
remote.log.manager.fetch.quota.window.num INT 11 [1,...]
remote.log.manager.fetch.quota.window.size.seconds INT 1 [1,...]
remote.log.manager.follower.thread.pool.size INT* 2 [1,...]
remote.log.manager.task.interval.ms LONG 30000 [1,...]
remote.log.manager.thread.pool.size INT 2 [1,...]
remote.log.metadata.custom.metadata.max.bytes INT 128 [0,...]
remote.log.metadata.manager.class.name STRING org.apache.kafka.server.log.remote.metadata.storage.To\
picBasedRemoteLogMetadataManager non-empty string
remote.log.metadata.manager.class.path STRING null
remote.log.metadata.manager.impl.prefix STRING rlmm.config. non-empty string
remote.log.metadata.manager.listener.name STRING null non-empty string
remote.log.reader.max.pending.tasks INT 100 [1,...]
remote.log.reader.threads INT* 10 [1,...]
remote.log.storage.manager.class.name STRING null non-empty string
remote.log.storage.manager.class.path STRING null
remote.log.storage.manager.impl.prefix STRING rsm.config. non-empty string
remote.log.storage.system.enable BOOLEAN false
replica.fetch.backoff.ms INT 1000 [0,...]
replica.fetch.max.bytes INT 1048576 [0,...]
replica.fetch.min.bytes INT 1
replica.fetch.response.max.bytes INT 10485760 [0,...]
replica.fetch.wait.max.ms INT 500
replica.high.watermark.checkpoint.interval.ms LONG 5000
replica.lag.time.max.ms LONG 30000
replica.selector.class STRING null
replica.socket.receive.buffer.bytes INT 65536
replica.socket.timeout.ms INT 30000
replication.quota.window.num INT 11 [1,...]
replication.quota.window.size.seconds INT 1 [1,...]
request.timeout.ms INT 30000
sasl.client.callback.handler.class CLASS null
sasl.enabled.mechanisms LIST* GSSAPI
sasl.jaas.config PASSWORD* null
sasl.kerberos.kinit.cmd STRING* /usr/bin/kinit
sasl.kerberos.min.time.before.relogin LONG* 60000
sasl.kerberos.principal.to.local.rules LIST* DEFAULT
sasl.kerberos.service.name STRING* null
sasl.kerberos.ticket.renew.jitter DOUBLE* 0.05
sasl.kerberos.ticket.renew.window.factor DOUBLE* 0.8
sasl.login.callback.handler.class CLASS null
sasl.login.class CLASS null
sasl.login.connect.timeout.ms INT null
sasl.login.read.timeout.ms INT null
sasl.login.refresh.buffer.seconds SHORT* 300
sasl.login.refresh.min.period.seconds SHORT* 60
sasl.login.refresh.window.factor DOUBLE* 0.8
sasl.login.refresh.window.jitter DOUBLE* 0.05
sasl.login.retry.backoff.max.ms LONG 10000
sasl.login.retry.backoff.ms LONG 100
sasl.mechanism.controller.protocol STRING GSSAPI
sasl.mechanism.inter.broker.protocol STRING* GSSAPI
sasl.oauthbearer.allow.unverified.audience BOOLEAN false
sasl.oauthbearer.allow.unverified.issuer BOOLEAN false
sasl.oauthbearer.assertion.algorithm STRING RS256 (case insensitive) [ES256, RS256]
sasl.oauthbearer.assertion.claim.aud STRING null
sasl.oauthbearer.assertion.claim.exp.seconds INT 300 [0,...,86400]
sasl.oauthbearer.assertion.claim.iss STRING null
sasl.oauthbearer.assertion.claim.jti.include BOOLEAN false
sasl.oauthbearer.assertion.claim.nbf.seconds INT 60 [0,...,3600]
sasl.oauthbearer.assertion.claim.sub STRING null
sasl.oauthbearer.assertion.file STRING null
sasl.oauthbearer.assertion.private.key.file STRING null
sasl.oauthbearer.assertion.private.key.passphrase PASSWORD null
sasl.oauthbearer.assertion.template.file STRING null
sasl.oauthbearer.client.credentials.client.id STRING null
sasl.oauthbearer.client.credentials.client.secret PASSWORD null
sasl.oauthbearer.clock.skew.seconds INT 30
sasl.oauthbearer.expected.audience LIST ""
sasl.oauthbearer.expected.issuer STRING null
sasl.oauthbearer.jwks.endpoint.refresh.ms LONG 3600000
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms LONG 10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms LONG 100
sasl.oauthbearer.jwks.endpoint.url STRING null
sasl.oauthbearer.jwt.retriever.class CLASS org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.jwt.validator.class CLASS org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
sasl.oauthbearer.scope STRING null
sasl.oauthbearer.scope.claim.name STRING scope
sasl.oauthbearer.sub.claim.name STRING sub
sasl.oauthbearer.token.endpoint.url STRING null
sasl.server.callback.handler.class CLASS null
sasl.server.max.receive.size INT 524288
security.inter.broker.protocol STRING PLAINTEXT [PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL]
security.providers STRING null
share.coordinator.append.linger.ms INT -1 [-1,...]
share.coordinator.cached.buffer.max.bytes INT* 1048588 [524288,...]
share.coordinator.load.buffer.size INT 5242880 [1,...]
share.coordinator.snapshot.update.records.per.snapshot INT 500 [0,...,500]
share.coordinator.state.topic.compression.codec INT 0
share.coordinator.state.topic.min.isr SHORT 2 [1,...]
share.coordinator.state.topic.num.partitions INT 50 [1,...]
share.coordinator.state.topic.replication.factor SHORT 3 [1,...]
share.coordinator.state.topic.segment.bytes INT 104857600 [1,...]
share.coordinator.threads INT 1 [1,...]
share.coordinator.write.timeout.ms INT 5000 [1,...]
share.fetch.purgatory.purge.interval.requests INT 1000
socket.connection.setup.timeout.max.ms LONG 30000
socket.connection.setup.timeout.ms LONG 10000
socket.listen.backlog.size INT 50 [1,...]
socket.receive.buffer.bytes INT 102400
socket.request.max.bytes INT 104857600 [1,...]
socket.send.buffer.bytes INT 102400
ssl.allow.dn.changes BOOLEAN false
ssl.allow.san.changes BOOLEAN false
ssl.cipher.suites LIST* ""
ssl.client.auth STRING* none [required, requested, none]
ssl.enabled.protocols LIST* TLSv1.2,TLSv1.3
ssl.endpoint.identification.algorithm STRING* https
ssl.engine.factory.class CLASS* null
ssl.key.password PASSWORD* null
ssl.keymanager.algorithm STRING* SunX509
ssl.keystore.certificate.chain PASSWORD* null
ssl.keystore.key PASSWORD* null
ssl.keystore.location STRING* null
ssl.keystore.password PASSWORD* null
ssl.keystore.type STRING* JKS
ssl.principal.mapping.rules STRING DEFAULT
ssl.protocol STRING* TLSv1.3
ssl.provider STRING* null
ssl.secure.random.implementation STRING* null
ssl.trustmanager.algorithm STRING* PKIX
ssl.truststore.certificates PASSWORD* null
ssl.truststore.location STRING* null
ssl.truststore.password PASSWORD* null
ssl.truststore.type STRING* JKS
telemetry.max.bytes INT 1048576 [1,...]
transaction.abort.timed.out.transaction.cleanup.interval.ms INT 10000 [1,...]
transaction.max.timeout.ms INT 900000 [1,...]
transaction.partition.verification.enable BOOLEAN* true
transaction.remove.expired.transaction.cleanup.interval.ms INT 3600000 [1,...]
transaction.state.log.load.buffer.size INT 5242880 [1,...]
transaction.state.log.min.isr INT 2 [1,...]
transaction.state.log.num.partitions INT 50 [1,...]
transaction.state.log.replication.factor SHORT 3 [1,...]
transaction.state.log.segment.bytes INT 104857600 [1,...]
transaction.two.phase.commit.enable BOOLEAN false
transactional.id.expiration.ms INT 604800000 [1,...]
unclean.leader.election.enable BOOLEAN* false
"""

# Kafka defines these for its own tests and does not document them.
INTERNAL_TOPIC_TABLE: Final = """\
internal.segment.bytes INT null [14,...]
"""

# Replication throttle rates, which can only be set on a running broker.
DYNAMIC_ONLY_TABLE: Final = """\
follower.replication.throttled.rate LONG* 9223372036854775807 [0,...]
leader.replication.throttled.rate LONG* 9223372036854775807 [0,...]
replica.alter.log.dirs.io.max.bytes.per.second LONG* 9223372036854775807 [0,...]
"""

# Options of one consumer, share or streams group. The broker's "group." option, if there is one, overrides
# the default; its min and max options are the bounds.
GROUP_TABLE: Final = """\
consumer.assignment.interval.ms INT 1000 [0,...]
consumer.heartbeat.interval.ms INT 5000 [1,...]
consumer.session.timeout.ms INT 45000 [1,...]
errors.deadletterqueue.copy.record.enable BOOLEAN false
errors.deadletterqueue.topic.name STRING ""
share.assignment.interval.ms INT 1000 [0,...]
share.auto.offset.reset STRING latest [latest, earliest, by_duration:PnDTnHnMn.nS]
share.delivery.count.limit INT 5 [2,...]
share.heartbeat.interval.ms INT 5000 [1,...]
share.isolation.level STRING read_uncommitted [read_committed, read_uncommitted]
share.partition.max.record.locks INT 2000 [100,...]
share.record.lock.duration.ms INT 30000 [1000,...]
share.renew.acknowledge.enable BOOLEAN true
share.session.timeout.ms INT 45000 [1,...]
streams.assignment.interval.ms INT 1000 [0,...]
streams.assignor.name STRING null
streams.heartbeat.interval.ms INT 5000 [1,...]
streams.initial.rebalance.delay.ms INT 3000 [0,...]
streams.num.standby.replicas INT 0 [0,...]
streams.rack.aware.assignment.tags LIST ""
streams.session.timeout.ms INT 45000 [1,...]
"""

# Options of one client metrics subscription (KIP-714).
METRICS_TABLE: Final = """\
interval.ms INT 300000
match LIST ""
metrics LIST ""
"""

TOPIC_SYNONYMS: Final[dict[str, str]] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.type": "compression.type",
    "compression.zstd.level": "compression.zstd.level",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "local.retention.bytes": "log.local.retention.bytes",
    "local.retention.ms": "log.local.retention.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.decompressed.message.bytes": "max.decompressed.message.bytes",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "preallocate": "log.preallocate",
    "remote.copy.lag.bytes": "log.remote.copy.lag.bytes",
    "remote.copy.lag.ms": "log.remote.copy.lag.ms",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""The broker option that provides the default of each topic option."""

FALLBACKS: Final[dict[str, tuple[tuple[str, int], ...]]] = {
    "log.flush.interval.ms": (("log.flush.scheduler.interval.ms", 1),),
    "log.retention.ms": (("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "log.roll.ms": (("log.roll.hours", 3_600_000),),
    "log.roll.jitter.ms": (("log.roll.jitter.hours", 3_600_000),),
}
"""Broker options that provide the value of an unset option, in this order, with a factor."""

GROUP_SYNONYMS: Final[dict[str, str]] = {"streams.assignor.name": "group.streams.assignors"}
"""The broker options that provide defaults of group options under another name than "group." + name."""

ADDED: Final[dict[str, frozenset[str]]] = {
    "4.4": frozenset(
        {
            "errors.deadletterqueue.auto.create.topics.enable",
            "errors.deadletterqueue.copy.record.enable",
            "errors.deadletterqueue.group.enable",
            "errors.deadletterqueue.topic.name",
            "errors.deadletterqueue.topic.name.prefix",
            "group.streams.assignors",
            "group.streams.rack.aware.assignment.tags",
            "group.streams.topology.description.plugin.class",
            "log.remote.copy.lag.bytes",
            "log.remote.copy.lag.ms",
            "max.decompressed.message.bytes",
            "remote.copy.lag.bytes",
            "remote.copy.lag.ms",
            "sasl.oauthbearer.allow.unverified.audience",
            "sasl.oauthbearer.allow.unverified.issuer",
            "streams.assignor.name",
            "streams.rack.aware.assignment.tags",
        }
    )
}
"""The options that a release added since 4.3: older ones neither describe nor accept them."""
