// Asks a cluster of three brokers everything that franz-go's kadm can ask without security, and prints a line
// for each answer; ids and times are left out, so that two clusters can be compared.
//
//	kadm SEEDS
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func say(what string, err error, rest ...any) {
	fmt.Printf("%-34s %v", what, err)
	for _, r := range rest {
		fmt.Printf(" | %v", r)
	}
	fmt.Println()
}

func p(s string) *string { return &s }

func main() {
	seeds := strings.Split(os.Args[1], ",")
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		panic(err)
	}
	a := kadm.NewClient(cl)

	brokers, err := a.ListBrokers(ctx)
	say("ListBrokers", err, brokers.NodeIDs())
	meta, err := a.BrokerMetadata(ctx)
	say("BrokerMetadata", err, len(meta.Brokers), len(meta.Cluster) > 0)
	versions, err := a.ApiVersions(ctx)
	say("ApiVersions", err, len(versions))

	ct, err := a.CreateTopic(ctx, 3, 2, map[string]*string{"retention.ms": p("600000")}, "k")
	say("CreateTopic", err, ct.Topic, ct.NumPartitions, ct.ReplicationFactor, len(ct.Configs) > 0)
	ct, err = a.CreateTopic(ctx, 3, 2, nil, "k")
	say("CreateTopic again", err, ct.ErrMessage)
	_, err = a.CreateTopic(ctx, 3, 9, nil, "k9")
	say("CreateTopic of 9 replicas", err)
	vt, err := a.ValidateCreateTopics(ctx, 1, 1, nil, "v")
	say("ValidateCreateTopics", err, vt["v"].Err)
	time.Sleep(300 * time.Millisecond)
	td, err := a.ListTopics(ctx, "k")
	say("ListTopics", err, td["k"].Err, len(td["k"].Partitions), td["k"].IsInternal)
	td, err = a.ListTopics(ctx, "none")
	say("ListTopics of none", err, td["none"].Err)
	cp, err := a.CreatePartitions(ctx, 1, "k")
	say("CreatePartitions", err, cp["k"].Err)
	cp, err = a.UpdatePartitions(ctx, 2, "k")
	say("UpdatePartitions to fewer", err, cp["k"].Err, cp["k"].ErrMessage)
	vp, err := a.ValidateUpdatePartitions(ctx, 9, "k")
	say("ValidateUpdatePartitions", err, vp["k"].Err)

	tc, err := a.DescribeTopicConfigs(ctx, "k")
	for _, rc := range tc {
		n := 0
		for _, c := range rc.Configs {
			if c.Key == "retention.ms" {
				say("DescribeTopicConfigs", err, rc.Err, *c.Value, c.Source, len(c.Synonyms))
			}
			n++
		}
		say("its configs", nil, n)
	}
	bc, err := a.DescribeBrokerConfigs(ctx, 0)
	say("DescribeBrokerConfigs", err, len(bc), len(bc[0].Configs) > 100)
	ac, err := a.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: p("200000")}, {Op: kadm.AppendConfig, Name: "cleanup.policy", Value: p("compact")}}, "k")
	say("AlterTopicConfigs", err, ac[0].Err)
	ac, err = a.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "no.such", Value: p("1")}}, "k")
	say("AlterTopicConfigs unknown", err, ac[0].Err)
	ac, err = a.ValidateAlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: p("x")}}, "k")
	say("ValidateAlterTopicConfigs", err, ac[0].Err, ac[0].ErrMessage)
	ac, err = a.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.DeleteConfig, Name: "cleanup.policy"}}, "k")
	say("AlterTopicConfigs delete", err, ac[0].Err)
	ac, err = a.AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "log.retention.ms", Value: p("700000")}}, 1)
	say("AlterBrokerConfigs", err, ac[0].Err)
	ac, err = a.AlterTopicConfigsState(ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: p("500000")}}, "k")
	say("AlterTopicConfigsState", err, ac[0].Err)
	cr, err := a.ListConfigResources(ctx, kadm.ConfigResourceType(2))
	say("ListConfigResources topics", err, cr.Err)

	for part := int32(0); part < 4; part++ {
		for i := 0; i < 5; i++ {
			r := cl.ProduceSync(ctx, &kgo.Record{Topic: "k", Partition: part, Value: []byte("v"), Timestamp: time.UnixMilli(1767225600000 + int64(i)*1000)})
			if r.FirstErr() != nil {
				say("produce", r.FirstErr())
			}
		}
	}
	show := func(what string, l kadm.ListedOffsets, err error) {
		s := ""
		l.Each(func(o kadm.ListedOffset) {
			s += fmt.Sprintf(" %d:%d@%d/%d%v", o.Partition, o.Offset, o.Timestamp, o.LeaderEpoch, o.Err)
		})
		parts := strings.Fields(s)
		sort.Strings(parts) // they come in a map's order
		say(what, err, strings.Join(parts, " "))
	}
	l, err := a.ListStartOffsets(ctx, "k")
	show("ListStartOffsets", l, err)
	l, err = a.ListEndOffsets(ctx, "k")
	show("ListEndOffsets", l, err)
	l, err = a.ListCommittedOffsets(ctx, "k")
	show("ListCommittedOffsets", l, err)
	l, err = a.ListOffsetsAfterMilli(ctx, 1767225602500, "k")
	show("ListOffsetsAfterMilli", l, err)
	l, err = a.ListMaxTimestampOffsets(ctx, "k")
	show("ListMaxTimestampOffsets", l, err)
	var oer kadm.OffsetForLeaderEpochRequest
	oer.Add("k", 0, 0)
	oe, err := a.OffsetForLeaderEpoch(ctx, oer)
	say("OffsetForLeaderEpoch", err, oe["k"][0].EndOffset, oe["k"][0].LeaderEpoch, oe["k"][0].Err)

	dr, err := a.DeleteRecords(ctx, kadm.Offsets{"k": {0: {Topic: "k", Partition: 0, At: 2}}})
	say("DeleteRecords", err, dr["k"][0].LowWatermark, dr["k"][0].Err)
	dr, err = a.DeleteRecords(ctx, kadm.Offsets{"k": {0: {Topic: "k", Partition: 0, At: 99}}})
	say("DeleteRecords beyond", err, dr["k"][0].Err)

	committed := kadm.Offsets{}
	committed.AddOffset("k", 0, 3, -1)
	committed.AddOffset("k", 1, 4, -1)
	say("CommitAllOffsets", a.CommitAllOffsets(ctx, "g", committed))
	fo, err := a.FetchOffsets(ctx, "g")
	say("FetchOffsets", err, len(fo["k"]), fo["k"][0].At, fo["k"][1].At)
	fm := a.FetchManyOffsets(ctx, "g", "h")
	say("FetchManyOffsets", fm.Error(), len(fm["g"].Fetched["k"]), len(fm["h"].Fetched["k"]))
	lg, err := a.ListGroups(ctx)
	say("ListGroups", err, lg.Groups(), lg["g"].State, lg["g"].ProtocolType)
	dg, err := a.DescribeGroups(ctx, "g", "none")
	say("DescribeGroups", err, dg["g"].State, dg["g"].Err, dg["none"].State, dg["none"].Err)
	dcg, err := a.DescribeConsumerGroups(ctx, "none")
	say("DescribeConsumerGroups", err, dcg["none"].Err)
	lag, err := a.Lag(ctx, "g")
	say("Lag", err, lag["g"].Lag.Total(), lag["g"].State)
	do, err := a.DeleteOffsets(ctx, "g", kadm.TopicsSet{"k": {1: {}}})
	say("DeleteOffsets", err, do["k"][1])
	member, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.ConsumerGroup("m"), kgo.ConsumeTopics("k"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	got := 0
	for got < 18 && ctx.Err() == nil {
		got += member.PollFetches(ctx).NumRecords()
	}
	dg, err = a.DescribeGroups(ctx, "m")
	say("DescribeGroups with a member", err, dg["m"].State, dg["m"].Protocol, len(dg["m"].Members))
	_, err = a.DeleteGroup(ctx, "m")
	say("DeleteGroup in use", err)
	lv, err := a.LeaveGroup(ctx, kadm.LeaveGroup("m").Reason("r"))
	say("LeaveGroup of nobody", err, len(lv))
	member.Close()
	dgr, err := a.DeleteGroups(ctx, "g", "none")
	say("DeleteGroups", err, dgr["g"].Err, dgr["none"].Err)

	txn, _ := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.TransactionalID("x"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	say("begin", txn.BeginTransaction())
	say("produce in it", txn.ProduceSync(ctx, &kgo.Record{Topic: "k", Partition: 2, Value: []byte("t")}).FirstErr())
	lt, err := a.ListTransactions(ctx, nil, nil)
	say("ListTransactions", err, lt.TransactionalIDs(), lt["x"].State)
	lt, err = a.ListTransactions(ctx, nil, []string{"Empty"})
	say("ListTransactions Empty", err, lt.TransactionalIDs())
	dt, err := a.DescribeTransactions(ctx, "x", "none")
	say("DescribeTransactions", err, dt["x"].State, dt["x"].TimeoutMillis, dt["x"].Topics.Sorted(), dt["x"].Err, dt["none"].Err)
	dp, err := a.DescribeProducers(ctx, kadm.TopicsSet{"k": {2: {}}})
	n := 0
	dp.EachProducer(func(d kadm.DescribedProducer) {
		if d.CurrentTxnStartOffset >= 0 {
			n++
			say("DescribeProducers", err, d.ProducerEpoch, d.LastSequence, d.CurrentTxnStartOffset, d.CoordinatorEpoch)
		}
	})
	say("open there", err, n)
	say("end", txn.EndTransaction(ctx, kgo.TryAbort))
	time.Sleep(500 * time.Millisecond) // until the markers are written
	lc, err := a.ListCommittedOffsets(ctx, "k")
	show("ListCommittedOffsets after abort", lc, err)
	txn.Close()

	el, err := a.ElectLeaders(ctx, kadm.ElectPreferredReplica, kadm.TopicsSet{"k": {0: {}}})
	say("ElectLeaders", err, el["k"][0].Err, el["k"][0].ErrMessage)
	var req kadm.AlterPartitionAssignmentsReq
	req.Assign("k", 0, []int32{0, 1})
	ap, err := a.AlterPartitionAssignments(ctx, req)
	say("AlterPartitionAssignments", err, ap["k"][0].Err)
	time.Sleep(500 * time.Millisecond)
	lr, err := a.ListPartitionReassignments(ctx, nil)
	say("ListPartitionReassignments", err, len(lr))
	var cancelReq kadm.AlterPartitionAssignmentsReq
	cancelReq.CancelAssign("k", 0)
	ap, err = a.AlterPartitionAssignments(ctx, cancelReq)
	say("cancel", err, ap["k"][0].Err)
	ld, err := a.DescribeAllLogDirs(ctx, kadm.TopicsSet{"k": {0: {}}})
	nd := 0
	ld.Each(func(d kadm.DescribedLogDir) { nd++; _ = d })
	say("DescribeAllLogDirs", err, nd)
	acls, err := a.DescribeACLs(ctx, kadm.NewACLs().AnyResource().Allow().AllowHosts().Operations(kadm.OpAny))
	say("DescribeACLs", err, len(acls))
	quotas, err := a.DescribeClientQuotas(ctx, false, nil)
	say("DescribeClientQuotas", err, len(quotas))
	scrams, err := a.DescribeUserSCRAMs(ctx)
	say("DescribeUserSCRAMs", err, len(scrams))
	dels, err := a.DeleteTopics(ctx, "k", "none")
	say("DeleteTopics", err, dels["k"].Err, dels["none"].Err)
}
