package pykafka2.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Utils;

/** Record batches: built with Kafka's MemoryRecordsBuilder, and read with its MemoryRecords. */
final class RecordBytes {
    static JsonNode buildBatch(JsonNode item) throws IOException {
        byte magic = (byte) item.path("magic").asInt(2);
        TimestampType timestamps = item.path("log_append_time").isNumber()
            ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
        if (magic == RecordBatch.MAGIC_VALUE_V0) {
            timestamps = TimestampType.NO_TIMESTAMP_TYPE;
        }
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(1024),
            magic,
            Compression.of(item.path("codec").asText("none")).build(),
            timestamps,
            item.path("base_offset").asLong(0),
            item.path("log_append_time").asLong(RecordBatch.NO_TIMESTAMP),
            item.path("producer_id").asLong(RecordBatch.NO_PRODUCER_ID),
            (short) item.path("producer_epoch").asInt(RecordBatch.NO_PRODUCER_EPOCH),
            item.path("base_sequence").asInt(RecordBatch.NO_SEQUENCE),
            item.path("transactional").asBoolean(false),
            item.path("leader_epoch").asInt(RecordBatch.NO_PARTITION_LEADER_EPOCH));
        for (JsonNode record : item.get("records")) {
            byte[] key = Bridge.bytes(record.get("key"));
            byte[] value = Bridge.bytes(record.get("value"));
            long timestamp = magic == 0 ? RecordBatch.NO_TIMESTAMP : record.get("timestamp").asLong();
            if (magic < 2) {
                builder.append(timestamp, key, value);
            } else {
                builder.append(timestamp, key, value, headers(record.path("headers")));
            }
        }
        return Bridge.JSON.binaryNode(Utils.toArray(builder.build().buffer()));
    }

    static JsonNode endTransactionMarker(JsonNode item) {
        ControlRecordType type = item.get("commit").asBoolean() ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
        MemoryRecords records = MemoryRecords.withEndTransactionMarker(
            item.get("base_offset").asLong(),
            item.get("timestamp").asLong(),
            item.get("leader_epoch").asInt(),
            item.get("producer_id").asLong(),
            (short) item.get("producer_epoch").asInt(),
            new EndTransactionMarker(type, item.get("coordinator_epoch").asInt()));
        return Bridge.JSON.binaryNode(Utils.toArray(records.buffer()));
    }

    static JsonNode readBatches(JsonNode item) throws IOException {
        ArrayNode batches = Bridge.JSON.arrayNode();
        for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(item.get("bytes").binaryValue())).batches()) {
            batch.ensureValid(); // the checksum; throws CorruptRecordException
            ObjectNode view = batches.addObject();
            view.put("magic", batch.magic());
            view.put("codec", batch.compressionType().name);
            view.put("timestamp_type", batch.timestampType().name);
            view.put("base_offset", batch.baseOffset());
            view.put("last_offset", batch.lastOffset());
            view.put("max_timestamp", batch.maxTimestamp());
            view.put("producer_id", batch.producerId());
            view.put("producer_epoch", batch.producerEpoch());
            view.put("base_sequence", batch.baseSequence());
            view.put("transactional", batch.isTransactional());
            view.put("control", batch.isControlBatch());
            view.put("leader_epoch", batch.partitionLeaderEpoch());
            ArrayNode records = view.putArray("records");
            for (Record record : batch) {
                record.ensureValid();
                ObjectNode line = records.addObject();
                line.put("offset", record.offset());
                line.put("timestamp", record.timestamp());
                line.set("key", record.hasKey() ? Bridge.JSON.binaryNode(Utils.toArray(record.key())) : null);
                line.set("value", record.hasValue() ? Bridge.JSON.binaryNode(Utils.toArray(record.value())) : null);
                line.set("headers", headers(record.headers()));
                if (batch.isControlBatch()) {
                    line.put("control_type", ControlRecordType.parse(record.key()).name());
                    line.put("coordinator_epoch", EndTransactionMarker.deserialize(record).coordinatorEpoch());
                }
            }
        }
        return batches;
    }

    /** Headers as [[name, value or null], ...], in both directions. */
    static Header[] headers(JsonNode pairs) throws IOException {
        Header[] headers = new Header[pairs.size()];
        for (int i = 0; i < headers.length; i++) {
            headers[i] = new RecordHeader(pairs.get(i).get(0).asText(), Bridge.bytes(pairs.get(i).get(1)));
        }
        return headers;
    }

    static ArrayNode headers(Header[] headers) {
        ArrayNode pairs = Bridge.JSON.arrayNode();
        for (Header header : headers) {
            pairs.addArray().add(header.key()).add(header.value());
        }
        return pairs;
    }

    private RecordBytes() {
    }
}
