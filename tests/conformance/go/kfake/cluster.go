// Package kfake replaces the package of the same name in a fetched copy of franz-go, so that its tests run
// against clusters of pykafka2.  It has the part of kfake's API that the tests of share groups use.
//
// A cluster is started by a request over HTTP to go_clusters.py.  Brokers advertise the ports of proxies in
// this process, which call the control functions of a test with each request.
package kfake

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

const (
	defaultBrokers = 3
	apiVersions    = 18
)

type settings struct {
	Brokers int               `json:"brokers"`
	Topics  map[string]int32  `json:"topics"`
	Config  map[string]string `json:"config"`
	Ports   []int             `json:"ports"`
	DataDir fs                `json:"data_dir"`
}

// Opt is an option of a cluster.
type Opt func(*settings)

func NumBrokers(n int) Opt { return func(s *settings) { s.Brokers = n } }

func SeedTopics(partitions int32, names ...string) Opt {
	return func(s *settings) {
		for _, name := range names {
			s.Topics[name] = partitions
		}
	}
}

func BrokerConfigs(configs map[string]string) Opt {
	return func(s *settings) {
		for name, value := range configs {
			s.Config[name] = value
		}
	}
}

func MaxVersions(*kversion.Versions) Opt { panic("MaxVersions is not supported") }

// fs is the data directory of clusters that are closed and started again.
type fs string

func newMemFS() fs {
	folder, err := os.MkdirTemp("", "kfake-")
	if err != nil {
		panic(err)
	}
	return fs(folder)
}

func withFS(folder fs) Opt { return func(s *settings) { s.DataDir = folder } }

type controlFn func(kmsg.Request) (kmsg.Response, error, bool)

type control struct {
	key int16
	fn  controlFn
}

// Cluster is a running cluster with a proxy in front of each broker.
type Cluster struct {
	id        string
	brokers   []string
	listeners []net.Listener
	admin     *kgo.Client
	closing   sync.Once

	running sync.Mutex // held while control functions run, one request at a time

	mu       sync.Mutex // guards what follows, which control functions change through methods
	controls []*control
	node     int32
	keep     bool
	conns    map[net.Conn]struct{}
}

// NewCluster starts a cluster.
func NewCluster(opts ...Opt) (*Cluster, error) {
	s := &settings{Brokers: defaultBrokers, Topics: map[string]int32{}, Config: map[string]string{}}
	for _, opt := range opts {
		opt(s)
	}
	c := &Cluster{node: -1, conns: map[net.Conn]struct{}{}}
	for range s.Brokers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		c.listeners = append(c.listeners, l)
		s.Ports = append(s.Ports, l.Addr().(*net.TCPAddr).Port)
	}
	var started struct {
		ID        string   `json:"id"`
		Addresses []string `json:"addresses"`
	}
	if err := post("start", s, &started); err != nil {
		return nil, err
	}
	c.id, c.brokers = started.ID, started.Addresses
	for node, l := range c.listeners {
		go c.accept(l, int32(node))
	}
	admin, err := kgo.NewClient(kgo.SeedBrokers(c.brokers...))
	c.admin = admin
	return c, err
}

// ListenAddrs returns the addresses of the proxies, in the order of the brokers' ids.
func (c *Cluster) ListenAddrs() []string {
	var addrs []string
	for _, l := range c.listeners {
		addrs = append(addrs, l.Addr().String())
	}
	return addrs
}

// Close stops the brokers and ends all connections.
func (c *Cluster) Close() {
	c.closing.Do(func() {
		c.admin.Close()
		for _, l := range c.listeners {
			l.Close()
		}
		c.mu.Lock()
		for conn := range c.conns {
			conn.Close()
		}
		c.mu.Unlock()
		must(post("close", map[string]any{"id": c.id}, nil))
	})
}

// TopicInfo has the id of a topic.
type TopicInfo struct {
	Topic   string
	TopicID [16]byte
}

func (c *Cluster) TopicInfo(topic string) *TopicInfo {
	return &TopicInfo{Topic: topic, TopicID: c.metadata(topic).TopicID}
}

// LeaderFor returns the id of a partition's leader.
func (c *Cluster) LeaderFor(topic string, partition int32) int32 {
	for _, p := range c.metadata(topic).Partitions {
		if p.Partition == partition {
			return p.Leader
		}
	}
	return -1
}

func (c *Cluster) metadata(topic string) kmsg.MetadataResponseTopic {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(context.Background(), c.admin)
	must(err)
	return resp.Topics[0]
}

// MoveTopicPartition makes another broker the leader.
func (c *Cluster) MoveTopicPartition(topic string, partition, node int32) error {
	return c.steer("move", topic, partition, node)
}

func (c *Cluster) Compact()        { must(c.steer("compact", "", 0, 0)) }
func (c *Cluster) ApplyRetention() { must(c.steer("retain", "", 0, 0)) }

func (c *Cluster) steer(name, topic string, partition, node int32) error {
	return post(name, map[string]any{"id": c.id, "topic": topic, "partition": partition, "node": node}, nil)
}

// PartitionInfo has the offsets of a partition.
type PartitionInfo struct {
	HighWatermark  int64 `json:"high_watermark"`
	LogStartOffset int64 `json:"log_start_offset"`
}

func (c *Cluster) PartitionInfo(topic string, partition int32) *PartitionInfo {
	info := new(PartitionInfo)
	must(post("partition", map[string]any{"id": c.id, "topic": topic, "partition": partition}, info))
	return info
}

// ControlKey adds a function that is called with each request of this key, and can respond to it.
func (c *Cluster) ControlKey(key int16, fn func(kmsg.Request) (kmsg.Response, error, bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.controls = append(c.controls, &control{key, fn})
}

// KeepControl keeps the running control function after it has responded.
func (c *Cluster) KeepControl() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep = true
}

// CurrentNode returns the broker whose request the running control function got.
func (c *Cluster) CurrentNode() int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.node
}

// ---------------------------------------------------------------------- proxies

func (c *Cluster) accept(l net.Listener, node int32) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		backend, err := net.Dial("tcp", c.brokers[node])
		if err != nil {
			conn.Close()
			continue
		}
		c.mu.Lock()
		c.conns[conn], c.conns[backend] = struct{}{}, struct{}{}
		c.mu.Unlock()
		responses := make(chan []byte, 1000) // nil: the broker's next response
		go c.requests(conn, backend, node, responses)
		go c.respond(conn, backend, responses)
	}
}

func (c *Cluster) requests(conn, backend net.Conn, node int32, responses chan<- []byte) {
	defer close(responses)
	defer backend.Close()
	for {
		frame, err := readFrame(conn)
		if err != nil {
			return
		}
		resp, handled, err := c.controlled(frame, node)
		switch {
		case err != nil:
			conn.Close()
			return
		case handled && resp != nil:
			responses <- resp
		case !handled:
			if _, err := backend.Write(frame); err != nil {
				return
			}
			responses <- nil
		}
	}
}

func (c *Cluster) respond(conn, backend net.Conn, responses <-chan []byte) {
	defer func() {
		conn.Close()
		backend.Close()
		c.mu.Lock()
		delete(c.conns, conn)
		delete(c.conns, backend)
		c.mu.Unlock()
		for range responses { // until the other goroutine has ended
		}
	}()
	for resp := range responses {
		if resp == nil {
			frame, err := readFrame(backend)
			if err != nil {
				return
			}
			resp = frame
		}
		if _, err := conn.Write(resp); err != nil {
			return
		}
	}
}

// controlled calls the control functions of a request, and returns the frame of the response if there is one.
func (c *Cluster) controlled(frame []byte, node int32) ([]byte, bool, error) {
	key := int16(binary.BigEndian.Uint16(frame[4:]))
	c.running.Lock()
	defer c.running.Unlock()
	c.mu.Lock()
	var wanted []*control
	for _, one := range c.controls {
		if one.key == key {
			wanted = append(wanted, one)
		}
	}
	c.mu.Unlock()
	if len(wanted) == 0 {
		return nil, false, nil
	}
	req, correlation, err := parsed(frame)
	if err != nil {
		return nil, true, err
	}
	for _, one := range wanted {
		c.mu.Lock()
		c.node, c.keep = node, false
		c.mu.Unlock()
		resp, err, handled := one.fn(req)
		c.mu.Lock()
		c.node = -1
		if handled && !c.keep {
			for i, other := range c.controls {
				if other == one {
					c.controls = append(c.controls[:i:i], c.controls[i+1:]...)
					break
				}
			}
		}
		c.mu.Unlock()
		if err != nil {
			return nil, true, err
		}
		if handled {
			return responseFrame(resp, correlation), true, nil
		}
	}
	return nil, false, nil
}

func parsed(frame []byte) (kmsg.Request, int32, error) {
	r := kbin.Reader{Src: frame[4:]}
	key, version, correlation := r.Int16(), r.Int16(), r.Int32()
	r.NullableString() // client id
	req := kmsg.RequestForKey(key)
	if req == nil {
		return nil, 0, fmt.Errorf("request of unknown key %d", key)
	}
	req.SetVersion(version)
	if req.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	if err := r.Complete(); err != nil {
		return nil, 0, err
	}
	return req, correlation, req.ReadFrom(r.Src)
}

func responseFrame(resp kmsg.Response, correlation int32) []byte {
	if resp == nil {
		return nil
	}
	frame := kbin.AppendInt32(make([]byte, 4), correlation)
	if resp.IsFlexible() && resp.Key() != apiVersions {
		frame = append(frame, 0)
	}
	frame = resp.AppendTo(frame)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

func readFrame(conn net.Conn) ([]byte, error) {
	size := make([]byte, 4)
	if _, err := io.ReadFull(conn, size); err != nil {
		return nil, err
	}
	frame := append(size, make([]byte, binary.BigEndian.Uint32(size))...)
	_, err := io.ReadFull(conn, frame[4:])
	return frame, err
}

// ---------------------------------------------------------------------- requests to go_clusters.py

func post(name string, body, result any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	resp, err := http.Post(os.Getenv("CLUSTERS")+"/"+name, "application/json", bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || result == nil && resp.StatusCode == http.StatusOK {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", name, text)
	}
	return json.Unmarshal(text, result)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
