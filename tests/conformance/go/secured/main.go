// Logs in to a broker as its arguments say, sends a value and reads it back with franz-go's client.
//
//	secured SEEDS TOPIC VALUE < {"mechanism": ..., "user": ..., "password": ..., "token": ..., "ca": ..., "certificate": ...}
//
// Prints the value that was read, or ends with status 1 and the reason.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type way struct {
	Mechanism, User, Password, Token, Ca, Certificate string
}

func options(w way) ([]kgo.Opt, error) {
	var found []kgo.Opt
	if w.Ca != "" {
		pem, err := os.ReadFile(w.Ca)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		config := &tls.Config{RootCAs: pool}
		if w.Certificate != "" {
			pair, err := tls.LoadX509KeyPair(w.Certificate, w.Certificate)
			if err != nil {
				return nil, err
			}
			config.Certificates = []tls.Certificate{pair}
		}
		found = append(found, kgo.DialTLSConfig(config))
	}
	switch w.Mechanism {
	case "":
	case "PLAIN":
		found = append(found, kgo.SASL(plain.Auth{User: w.User, Pass: w.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		found = append(found, kgo.SASL(scram.Auth{User: w.User, Pass: w.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		found = append(found, kgo.SASL(scram.Auth{User: w.User, Pass: w.Password}.AsSha512Mechanism()))
	case "OAUTHBEARER":
		found = append(found, kgo.SASL(oauth.Auth{Token: w.Token}.AsMechanism()))
	default:
		return nil, fmt.Errorf("no mechanism %q", w.Mechanism)
	}
	return found, nil
}

func exchange(seeds, topic, value string, w way) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	how, err := options(w)
	if err != nil {
		return "", err
	}
	base := append(how, kgo.SeedBrokers(strings.Split(seeds, ",")...), kgo.RetryTimeout(5*time.Second),
		kgo.RecordDeliveryTimeout(8*time.Second))
	producer, err := kgo.NewClient(base...)
	if err != nil {
		return "", err
	}
	defer producer.Close()
	sent := producer.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: 0, Value: []byte(value)})
	record, err := sent.First()
	if err != nil {
		return "", err
	}
	from := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(record.Offset)}}
	consumer, err := kgo.NewClient(append(base, kgo.ConsumePartitions(from))...)
	if err != nil {
		return "", err
	}
	defer consumer.Close()
	fetches := consumer.PollFetches(ctx)
	if errs := fetches.Errors(); len(errs) > 0 {
		return "", errs[0].Err
	}
	return string(fetches.Records()[0].Value), nil
}

func main() {
	var w way
	if err := json.NewDecoder(os.Stdin).Decode(&w); err != nil {
		panic(err)
	}
	read, err := exchange(os.Args[1], os.Args[2], os.Args[3], w)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Print(read)
}
