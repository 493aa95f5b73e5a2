/* The compiled twin of pykafka2's code that runs for each record: see docs/architecture.md.
 *
 * It handles the usual case.  For everything else (other types, damaged bytes, a batch without room) it returns None or stops
 * early, and the Python code continues, which raises its own errors.  So nothing here raises but MemoryError.
 *
 * ConsumerRecord, Delivery and OpenBatch are Python classes with __slots__.  `bind` finds the places of their slots by setting
 * each slot of an instance to a new object and searching the instance for it.  If one is not found, `bind` raises, and
 * pykafka2/native.py uses the Python code.
 *
 * References: in these functions, "borrowed" is said where a pointer is not owned.  Between the check of a batch's room and the
 * end of an append nothing runs Python code: no call, no garbage collection, no finalizer.  CPython 3.11 collects garbage when it
 * allocates an object that contains others, so the delivery is allocated first.
 */

#include <pyconfig.h>
#ifdef Py_GIL_DISABLED
#define FREE_THREADED /* can also be set for a Python with a global lock, to try this code there */
#endif
#ifndef FREE_THREADED /* there is no stable ABI without a global lock before Python 3.15 */
#define Py_LIMITED_API 0x030b0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define INTERFACE 1 /* pykafka2/native.py expects this number; raised with each change of a function's meaning */

/* ------------------------------------------------------------------ slots of Python's classes */

enum { TOPIC, PARTITION, OFFSET, TIMESTAMP, TIMESTAMP_TYPE, KEY, VALUE, HEADERS, LEADER_EPOCH, KEY_SIZE, VALUE_SIZE };
enum { BATCH_OUTCOME, BATCH_INDEX };
enum { OUTCOME, FIELDS, COUNT, ROOM, SINCE, UNTIL, TIME };
enum { SNAPSHOT, QUEUES };
enum { TAIL };
enum { RECORD, DELIVERY, BATCH, ROUTE, QUEUE, CLASSES };
#define MOST_SLOTS 11

static const char *const SLOTS[CLASSES][MOST_SLOTS + 1] = {
    {"topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers_slot", "leader_epoch",
     "serialized_key_size", "serialized_value_size"},
    {"batch_outcome", "batch_index"},
    {"outcome", "fields", "count", "room_bytes", "since_ns", "until_ns", "timestamp"},
    {"snapshot", "queues"},
    {"tail"},
};

typedef struct {
    PyTypeObject *class; /* owned; NULL before `bind` */
    Py_ssize_t at[MOST_SLOTS];
    PyObject *names[MOST_SLOTS]; /* owned */
} Layout;

typedef struct {
    Layout layouts[CLASSES];
    PyObject *snapshot; /* the name, as a str */
} State;

/* Let an owned pointer own another object, whose reference is taken over. */
static inline void
replace(PyObject **owner, PyObject *object)
{
    PyObject *before = *owner;
    *owner = object;
    Py_XDECREF(before);
}

#define SLOT(object, at) (*(PyObject **)((char *)(object) + (at)))

/* Return an owned reference to what the slot holds, or NULL without an exception. */
static inline PyObject *
get(PyObject *object, const Layout *layout, int slot)
{
#ifdef FREE_THREADED /* another thread can set the slot and drop its object at any moment */
    PyObject *held = PyObject_GetAttr(object, layout->names[slot]);
    if (held == NULL) {
        PyErr_Clear();
    }
    return held;
#else
    return Py_XNewRef(SLOT(object, layout->at[slot]));
#endif
}

/* Let the slot hold the object, whose reference is taken over. */
static inline void
set(PyObject *object, const Layout *layout, int slot, PyObject *held)
{
#ifdef FREE_THREADED
    if (PyObject_GenericSetAttr(object, layout->names[slot], held) < 0) {
        PyErr_Clear(); /* cannot happen: the slot exists */
    }
    Py_DECREF(held);
#else
    replace(&SLOT(object, layout->at[slot]), held);
#endif
}

/* Read an int from a slot; return whether it was one that fits. */
static inline int
get_number(PyObject *object, const Layout *layout, int slot, long long *number)
{
    PyObject *held = get(object, layout, slot);
    if (held == NULL || !PyLong_Check(held)) {
        Py_XDECREF(held);
        return 0;
    }
    *number = PyLong_AsLongLong(held);
    Py_DECREF(held);
    if (*number == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    return 1;
}

/* Return the place of a slot in this new instance, or -1. */
static Py_ssize_t
find_slot(PyObject *instance, Py_ssize_t size, PyObject *name)
{
    Py_ssize_t found = -1;
    PyObject *mark = PyList_New(0);
    if (mark != NULL && PyObject_GenericSetAttr(instance, name, mark) == 0) {
        for (Py_ssize_t at = sizeof(PyObject); at + (Py_ssize_t)sizeof(PyObject *) <= size; at += sizeof(PyObject *)) {
            if (SLOT(instance, at) == mark) {
                found = at;
            }
        }
    }
    Py_XDECREF(mark);
    return found;
}

static void
clear_layout(Layout *layout)
{
    Py_CLEAR(layout->class);
    for (int slot = 0; slot < MOST_SLOTS; slot++) {
        Py_CLEAR(layout->names[slot]);
    }
}

static PyObject *
bind(PyObject *module, PyObject *args)
{
    State *state = PyModule_GetState(module);
    PyObject *class, *size_object, *instance;
    int kind;
    if (!PyArg_ParseTuple(args, "iO!", &kind, &PyType_Type, &class)) {
        return NULL;
    }
    if (kind < 0 || kind >= CLASSES) {
        return PyErr_Format(PyExc_ValueError, "%d is not a kind of class", kind);
    }
    Layout found = {0}; /* if it is refused, the class that is bound already stays */
    if ((size_object = PyObject_GetAttrString(class, "__basicsize__")) == NULL) {
        return NULL;
    }
    Py_ssize_t size = PyLong_AsSsize_t(size_object);
    Py_DECREF(size_object);
    if ((instance = PyType_GenericAlloc((PyTypeObject *)class, 0)) == NULL) {
        return NULL;
    }
    int slot = 0, is_complete = 1;
    for (; is_complete && slot < MOST_SLOTS && SLOTS[kind][slot] != NULL; slot++) {
        found.names[slot] = PyUnicode_InternFromString(SLOTS[kind][slot]);
        found.at[slot] = found.names[slot] == NULL ? -1 : find_slot(instance, size, found.names[slot]);
        is_complete = found.at[slot] >= 0;
    }
    Py_DECREF(instance);
    if (!is_complete) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "%R has no slot %s", class, SLOTS[kind][slot - 1]);
        clear_layout(&found);
        return NULL;
    }
    found.class = (PyTypeObject *)Py_NewRef(class);
    Layout before = state->layouts[kind];
    state->layouts[kind] = found;
    clear_layout(&before);
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ murmur2 */

static uint32_t
positive_murmur2(const uint8_t *data, Py_ssize_t size)
{
    const uint32_t mix = 0x5bd1e995;
    uint32_t h = 0x9747b28c ^ (uint32_t)size;
    for (; size >= 4; data += 4, size -= 4) {
        uint32_t k = (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        k *= mix;
        k ^= k >> 24;
        h = h * mix ^ k * mix;
    }
    if (size) {
        for (Py_ssize_t at = 0; at < size; at++) {
            h ^= (uint32_t)data[at] << 8 * at;
        }
        h *= mix;
    }
    h = (h ^ h >> 13) * mix;
    return (h ^ h >> 15) & 0x7fffffff;
}

static PyObject *
murmur2(PyObject *module, PyObject *key)
{
    char *data;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(key, &data, &size) < 0) {
        return NULL;
    }
    return PyLong_FromUnsignedLong(positive_murmur2((const uint8_t *)data, size));
}

/* ------------------------------------------------------------------ reading records */

typedef struct {
    const uint8_t *at, *end; /* the next record; the end of the batch */
    Py_ssize_t index, stop;
    long long base_offset, previous, last_offset, base_timestamp;
    int has_gaps, has_create_time;
    /* of the record that was read last */
    const uint8_t *begin, *key, *value, *headers;
    Py_ssize_t key_size, value_size, header_count; /* -1: null */
    long long offset, timestamp;
} Reader;

static inline int
read_varint(const uint8_t **at, const uint8_t *end, int most_bytes, uint64_t *raw)
{
    const uint8_t *p = *at;
    uint64_t number = 0;
    for (int shift = 0; shift < 7 * most_bytes && p < end; shift += 7) {
        uint8_t byte = *p++;
        number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *at = p;
            *raw = number;
            return shift < 63 || byte < 2; /* not more than 64 bits */
        }
    }
    return 0;
}

/* Read a size and so many bytes; the size is -1 for null. */
static inline int
read_field(const uint8_t **at, const uint8_t *end, const uint8_t **data, Py_ssize_t *size)
{
    uint64_t raw;
    if (*at < end && **at == 1) {
        *at += 1;
        *data = NULL;
        *size = -1;
        return 1;
    }
    if (!read_varint(at, end, 5, &raw) || raw & 1 || raw >> 1 > (uint64_t)(end - *at)) {
        return 0;
    }
    *data = *at;
    *size = (Py_ssize_t)(raw >> 1);
    *at += *size;
    return 1;
}

/* Add without overflow: a sum of more than 63 bits is negative, so it is not behind the record before. */
static inline long long
offset_at(const Reader *r, uint64_t delta)
{
    return (long long)((uint64_t)r->base_offset + delta);
}

/* Read a record, and move to the next one; return 0 if the Python code must read it. */
static int
read_record(Reader *r)
{
    uint64_t raw, delta;
    const uint8_t *at = r->at, *end;
    if (!read_varint(&at, r->end, 5, &raw) || raw & 1 || raw >> 1 > (uint64_t)(r->end - at)) {
        return 0;
    }
    end = at + (raw >> 1);
    if (at == end) {
        return 0;
    }
    at++; /* attributes, which have no meaning yet */
    if (!read_varint(&at, end, 10, &delta)) {
        return 0;
    }
    r->timestamp = r->base_timestamp;
    if (r->has_create_time) {
        int64_t signed_delta = (int64_t)(delta >> 1) ^ -(int64_t)(delta & 1);
        if (signed_delta > 0 ? r->base_timestamp > INT64_MAX - signed_delta : r->base_timestamp < INT64_MIN - signed_delta) {
            return 0;
        }
        r->timestamp += signed_delta;
    }
    r->offset = offset_at(r, (uint64_t)r->index);
    if (r->has_gaps) {
        if (!read_varint(&at, end, 5, &raw) || raw & 1) {
            return 0;
        }
        r->offset = offset_at(r, raw >> 1);
        if (r->offset <= r->previous || r->offset > r->last_offset) {
            return 0;
        }
    }
    else { /* as in decoder.py, whose bytes are counted, not read */
        Py_ssize_t bytes = r->index < 64 ? 1 : r->index < 8192 ? 2 : 3;
        if (end - at < bytes) {
            return 0;
        }
        at += bytes;
    }
    if (!read_field(&at, end, &r->key, &r->key_size) || !read_field(&at, end, &r->value, &r->value_size) || at == end) {
        return 0;
    }
    const uint8_t *counted = at;
    if (!read_varint(&at, end, 5, &raw) || raw & 1 || raw >> 1 > (uint64_t)(end - at) || (raw == 0 && *counted != 0)) {
        return 0;
    }
    r->header_count = (Py_ssize_t)(raw >> 1);
    r->headers = at;
    for (Py_ssize_t left = r->header_count; left; left--) {
        const uint8_t *data;
        Py_ssize_t size;
        if (!read_field(&at, end, &data, &size) || size < 0 || !read_field(&at, end, &data, &size)) {
            return 0;
        }
    }
    if (at != end) {
        return 0;
    }
    r->begin = r->at;
    r->at = end;
    r->previous = r->offset;
    r->index++;
    return 1;
}

#define KNOWN_NAMES 8

typedef struct {
    const uint8_t *data[KNOWN_NAMES]; /* in the buffer that is decoded */
    Py_ssize_t size[KNOWN_NAMES];
    PyObject *name[KNOWN_NAMES]; /* owned */
    int next;
} Names;

/* Return the name of a header (owned).  Most are those of the record before, and are shared. */
static PyObject *
name_of(Names *names, const uint8_t *data, Py_ssize_t size)
{
    for (int at = 0; at < KNOWN_NAMES && names->name[at] != NULL; at++) {
        if (names->size[at] == size && memcmp(names->data[at], data, (size_t)size) == 0) {
            return Py_NewRef(names->name[at]);
        }
    }
    PyObject *name = PyUnicode_DecodeUTF8((const char *)data, size, "surrogateescape");
    if (name != NULL) {
        int at = names->next;
        names->next = (at + 1) % KNOWN_NAMES;
        names->data[at] = data;
        names->size[at] = size;
        replace(&names->name[at], Py_NewRef(name));
    }
    return name;
}

static void
forget(Names *names)
{
    for (int at = 0; at < KNOWN_NAMES; at++) {
        Py_CLEAR(names->name[at]);
    }
}

static inline PyObject *
bytes_of(const uint8_t *data, Py_ssize_t size)
{
    return size < 0 ? Py_NewRef(Py_None) : PyBytes_FromStringAndSize((const char *)data, size);
}

static PyObject *
headers_of(const Reader *r, Names *names)
{
    PyObject *headers = PyList_New(0);
    const uint8_t *at = r->headers;
    for (Py_ssize_t left = r->header_count; left && headers != NULL; left--) {
        const uint8_t *name_data = NULL, *data = NULL;
        Py_ssize_t name_size = 0, size = 0;
        read_field(&at, r->at, &name_data, &name_size); /* `read_record` has read them before */
        read_field(&at, r->at, &data, &size);
        PyObject *name = name_of(names, name_data, name_size);
        PyObject *value = name == NULL ? NULL : bytes_of(data, size);
        PyObject *pair = value == NULL ? NULL : PyTuple_Pack(2, name, value);
        if (pair == NULL || PyList_Append(headers, pair) < 0) {
            Py_CLEAR(headers);
        }
        Py_XDECREF(pair);
        Py_XDECREF(value);
        Py_XDECREF(name);
    }
    return headers;
}

/* An int that is often the same as before. */
typedef struct {
    long long number;
    PyObject *object; /* owned */
} Number;

static inline PyObject *
object_of(Number *last, long long number)
{
    if (last->object == NULL || last->number != number) {
        replace(&last->object, PyLong_FromLongLong(number));
        last->number = number;
    }
    return Py_XNewRef(last->object);
}

static PyObject *
decode_records(PyObject *module, PyObject *args)
{
    State *state = PyModule_GetState(module);
    const Layout *layout = &state->layouts[RECORD];
    PyObject *buffer, *topic, *partition, *timestamp_type, *leader_epoch; /* borrowed */
    Reader r = {0};
    Py_ssize_t position;
    long long first_offset;
    if (!PyArg_ParseTuple(args, "SOOOOnnnLLLLppL", &buffer, &topic, &partition, &timestamp_type, &leader_epoch, &r.index, &r.stop,
                          &position, &r.base_offset, &r.previous, &r.last_offset, &r.base_timestamp, &r.has_create_time, &r.has_gaps,
                          &first_offset)) {
        return NULL;
    }
    const uint8_t *start = (const uint8_t *)PyBytes_AsString(buffer);
    Py_ssize_t size = PyBytes_Size(buffer);
    if (layout->class == NULL || position < 0 || position > size || r.index < 0) {
        PyErr_SetString(PyExc_ValueError, "decode_records: not bound, or not within the buffer");
        return NULL;
    }
    r.at = start + position;
    r.end = start + size;
    Names names = {0};
    Number time = {0}, key_size = {0}, value_size = {0};
    PyObject *records = PyList_New(0);
    while (records != NULL && r.index < r.stop && read_record(&r)) {
        if (r.offset < first_offset) {
            continue;
        }
        PyObject *record = PyType_GenericAlloc(layout->class, 0);
        if (record == NULL) {
            Py_CLEAR(records);
            break;
        }
#define FILL(slot, object) ((SLOT(record, layout->at[slot]) = (object)) != NULL)
        int is_full = FILL(TOPIC, Py_NewRef(topic)) && FILL(PARTITION, Py_NewRef(partition))
                      && FILL(OFFSET, PyLong_FromLongLong(r.offset)) && FILL(TIMESTAMP, object_of(&time, r.timestamp))
                      && FILL(TIMESTAMP_TYPE, Py_NewRef(timestamp_type)) && FILL(KEY, bytes_of(r.key, r.key_size))
                      && FILL(VALUE, bytes_of(r.value, r.value_size)) && FILL(LEADER_EPOCH, Py_NewRef(leader_epoch))
                      && FILL(KEY_SIZE, object_of(&key_size, r.key_size)) && FILL(VALUE_SIZE, object_of(&value_size, r.value_size))
                      && (r.header_count == 0 || FILL(HEADERS, headers_of(&r, &names)));
        if (!is_full || PyList_Append(records, record) < 0) {
            Py_CLEAR(records);
        }
        Py_DECREF(record);
    }
    forget(&names);
    Py_XDECREF(time.object);
    Py_XDECREF(key_size.object);
    Py_XDECREF(value_size.object);
    return records == NULL ? NULL : Py_BuildValue("NnnL", records, r.index, (Py_ssize_t)(r.at - start), r.previous);
}

/* Append an object, whose reference is taken over, to a list; return 0 with an exception if that failed. */
static inline int
append(PyObject *list, PyObject *object)
{
    int failed = object == NULL || PyList_Append(list, object) < 0;
    Py_XDECREF(object);
    return !failed;
}

static PyObject *
decode_rows(PyObject *module, PyObject *args)
{
    PyObject *buffer, *offsets, *timestamps, *keys, *values, *headers; /* borrowed */
    Reader r = {0};
    Py_ssize_t position;
    if (!PyArg_ParseTuple(args, "SO!O!O!O!O!nnnLLLLpp", &buffer, &PyList_Type, &offsets, &PyList_Type, &timestamps, &PyList_Type,
                          &keys, &PyList_Type, &values, &PyDict_Type, &headers, &r.index, &r.stop, &position, &r.base_offset,
                          &r.previous, &r.last_offset, &r.base_timestamp, &r.has_create_time, &r.has_gaps)) {
        return NULL;
    }
    const uint8_t *start = (const uint8_t *)PyBytes_AsString(buffer);
    Py_ssize_t size = PyBytes_Size(buffer);
    if (position < 0 || position > size || r.index < 0) {
        PyErr_SetString(PyExc_ValueError, "decode_rows: not within the buffer");
        return NULL;
    }
    r.begin = r.at = start + position;
    r.end = start + size;
    Names names = {0};
    Number time = {0};
    int is_good = 1;
    while (is_good && r.index < r.stop && read_record(&r)) {
        if (r.header_count) {
            PyObject *row = PyLong_FromSsize_t(PyList_Size(values)), *pairs = row == NULL ? NULL : headers_of(&r, &names);
            is_good = pairs != NULL && PyDict_SetItem(headers, row, pairs) == 0;
            Py_XDECREF(pairs);
            Py_XDECREF(row);
        }
        is_good = is_good && (!r.has_gaps || append(offsets, PyLong_FromLongLong(r.offset)))
                  && append(timestamps, object_of(&time, r.timestamp)) && append(keys, bytes_of(r.key, r.key_size))
                  && append(values, bytes_of(r.value, r.value_size));
    }
    forget(&names);
    Py_XDECREF(time.object);
    if (!is_good) {
        return NULL;
    }
    return Py_BuildValue("nnnLO", r.index, (Py_ssize_t)(r.begin - start), (Py_ssize_t)(r.at - start), r.previous,
                         r.header_count ? Py_False : Py_True);
}

/* ------------------------------------------------------------------ appending records */

#ifdef FREE_THREADED
/* A critical section would not do: an append to a list inside it can suspend it, and let another thread in. */
#define LOCKS 64
static PyMutex locks[LOCKS]; /* see `reset_locks` */
#define LOCK(batch) PyMutex *lock = &locks[((uintptr_t)(batch) >> 6) % LOCKS]; PyMutex_Lock(lock)
#define UNLOCK() PyMutex_Unlock(lock)
#else
#define LOCK(batch)
#define UNLOCK()
#endif

/* Append a record if the batch has room; return a Delivery, None without room, or NULL with MemoryError. */
static PyObject *
append_row(const State *state, PyObject *batch, PyObject *const row[5], long long size_bytes)
{
    const Layout *batches = &state->layouts[BATCH], *deliveries = &state->layouts[DELIVERY];
    PyObject *delivery = PyType_GenericAlloc(deliveries->class, 0);
    if (delivery == NULL) {
        return NULL;
    }
    long long room_bytes, count;
    PyObject *less_room = NULL, *more = NULL;
    int is_appended = 0;
    LOCK(batch);
    PyObject *outcome = get(batch, batches, OUTCOME), *fields = get(batch, batches, FIELDS);
    if (outcome != NULL && fields != NULL && PyList_CheckExact(fields) && get_number(batch, batches, ROOM, &room_bytes)
        && get_number(batch, batches, COUNT, &count) && room_bytes >= size_bytes
        && (less_room = PyLong_FromLongLong(room_bytes - size_bytes)) != NULL && (more = PyLong_FromLongLong(count + 1)) != NULL) {
        Py_ssize_t before = PyList_Size(fields);
        is_appended = 1;
        for (int at = 0; at < 5 && is_appended; at++) {
            is_appended = PyList_Append(fields, row[at]) == 0;
        }
        if (is_appended) {
            set(batch, batches, ROOM, less_room);
            set(delivery, deliveries, BATCH_INDEX, get(batch, batches, COUNT));
            set(delivery, deliveries, BATCH_OUTCOME, outcome);
            set(batch, batches, COUNT, more);
            less_room = more = outcome = NULL;
        }
        else {
            PyObject *error, *value, *trace;
            PyErr_Fetch(&error, &value, &trace);
            PyList_SetSlice(fields, before, PY_SSIZE_T_MAX, NULL);
            PyErr_Restore(error, value, trace);
        }
    }
    UNLOCK();
    Py_XDECREF(less_room);
    Py_XDECREF(more);
    Py_XDECREF(outcome);
    Py_XDECREF(fields);
    if (is_appended) {
        return delivery;
    }
    Py_DECREF(delivery);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyObject *
append_unlocked(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    State *state = PyModule_GetState(module);
    long long size_bytes;
    PyObject *row[5];
    if (count != 3 || !Py_IS_TYPE(args[0], state->layouts[BATCH].class) || state->layouts[DELIVERY].class == NULL
        || !PyTuple_CheckExact(args[1]) || PyTuple_Size(args[1]) != 5) {
        PyErr_SetString(PyExc_TypeError, "append_unlocked takes an OpenBatch, a row and its size");
        return NULL;
    }
    if ((size_bytes = PyLong_AsLongLong(args[2])) < 0) {
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "append_unlocked: a negative size");
    }
    for (int at = 0; at < 5; at++) {
        row[at] = PyTuple_GetItem(args[1], at); /* borrowed from the arguments */
    }
    return append_row(state, args[0], row, size_bytes);
}

/* Set the room of a batch, and return the room before: no append comes between. */
static PyObject *
swap_room(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    State *state = PyModule_GetState(module);
    if (count != 2 || !Py_IS_TYPE(args[0], state->layouts[BATCH].class)) {
        PyErr_SetString(PyExc_TypeError, "swap_room takes an OpenBatch and a number");
        return NULL;
    }
    LOCK(args[0]);
    PyObject *before = get(args[0], &state->layouts[BATCH], ROOM);
    set(args[0], &state->layouts[BATCH], ROOM, Py_NewRef(args[1]));
    UNLOCK();
    return before == NULL ? PyErr_Format(PyExc_AttributeError, "room_bytes") : before;
}

/* The arguments of `shortcut`, which the function holds. */
enum { MODULE, OPEN_BATCHES, ROUTES, METADATA, WALL_NS, KEYS_DECIDE, NOTE_TIME, NO_HEADERS, SMALLEST_BYTES, HELD };

/* Return an owned reference to the item of a dict, or NULL without an exception. */
static PyObject *
item_of(PyObject *dict, PyObject *key)
{
#ifdef FREE_THREADED
    PyObject *found = NULL;
    (void)PyDict_GetItemRef(dict, key, &found);
#else
    PyObject *found = Py_XNewRef(PyDict_GetItemWithError(dict, key));
#endif
    if (found == NULL) {
        PyErr_Clear();
    }
    return found;
}

/* Return the open batch of a key's partition (owned) if the topic's route is current, else NULL. */
static PyObject *
batch_of_key(const State *state, PyObject *held, PyObject *topic, PyObject *key)
{
    PyObject *queues = NULL, *batch = NULL, *current = NULL, *of_route = NULL;
    PyObject *route = item_of(PyTuple_GetItem(held, ROUTES), topic);
    if (route == NULL) {
        return NULL;
    }
    if (Py_IS_TYPE(route, state->layouts[ROUTE].class)) {
        of_route = get(route, &state->layouts[ROUTE], SNAPSHOT);
        current = PyObject_GetAttr(PyTuple_GetItem(held, METADATA), state->snapshot);
        if (current != NULL && current == of_route) {
            queues = get(route, &state->layouts[ROUTE], QUEUES);
        }
    }
    if (queues != NULL && PyList_CheckExact(queues) && PyList_Size(queues) > 0) { /* it never changes */
        uint32_t hash = positive_murmur2((const uint8_t *)PyBytes_AsString(key), PyBytes_Size(key));
        PyObject *queue = PyList_GetItem(queues, (Py_ssize_t)(hash % (uint64_t)PyList_Size(queues)));
        if (queue != NULL && Py_IS_TYPE(queue, state->layouts[QUEUE].class)) {
            batch = get(queue, &state->layouts[QUEUE], TAIL);
        }
    }
    PyErr_Clear();
    Py_XDECREF(current);
    Py_XDECREF(of_route);
    Py_XDECREF(queues);
    Py_DECREF(route);
    return batch;
}

/* Append a record of the current millisecond to its open batch: arguments topic, value, key, on_delivery.  Return None if the
 * Python code must append it. */
static PyObject *
send(PyObject *held, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 4) {
        PyErr_SetString(PyExc_TypeError, "topic, value, key and on_delivery are expected");
        return NULL;
    }
    PyObject *topic = args[0], *value = args[1], *key = args[2], *on_delivery = args[3], *batch, *result = NULL;
    if (!PyBytes_CheckExact(value) || !PyUnicode_CheckExact(topic) || (on_delivery != Py_None && !PyCallable_Check(on_delivery))) {
        Py_RETURN_NONE;
    }
    const State *state = PyModule_GetState(PyTuple_GetItem(held, MODULE));
    const Layout *layout = &state->layouts[BATCH];
    long long size_bytes = PyLong_AsLongLong(PyTuple_GetItem(held, SMALLEST_BYTES)) + PyBytes_Size(value);
    if (key == Py_None) {
        batch = item_of(PyTuple_GetItem(held, OPEN_BATCHES), topic);
    }
    else if (PyBytes_CheckExact(key) && PyTuple_GetItem(held, KEYS_DECIDE) == Py_True) {
        batch = batch_of_key(state, held, topic, key);
        size_bytes += PyBytes_Size(key);
    }
    else {
        Py_RETURN_NONE;
    }
    if (batch == NULL || !Py_IS_TYPE(batch, layout->class)) {
        Py_XDECREF(batch);
        Py_RETURN_NONE;
    }
    PyObject *now = PyObject_CallNoArgs(PyTuple_GetItem(held, WALL_NS)), *time = NULL;
    long long now_ns = now == NULL ? -1 : PyLong_AsLongLong(now), since_ns, until_ns;
    if (now_ns == -1 && PyErr_Occurred()) {
        goto done;
    }
    int fits = get_number(batch, layout, SINCE, &since_ns) && since_ns <= now_ns && get_number(batch, layout, UNTIL, &until_ns)
               && now_ns < until_ns;
    if (!fits && key != Py_None) { /* once in a millisecond for each partition */
        PyObject *ms = PyLong_FromLongLong(now_ns / 1000000);
        PyObject *noted = ms == NULL ? NULL : PyObject_CallFunctionObjArgs(PyTuple_GetItem(held, NOTE_TIME), batch, ms, NULL);
        Py_XDECREF(ms);
        if (noted == NULL) {
            goto done;
        }
        fits = noted == Py_True;
        Py_DECREF(noted);
    }
    if (fits && (time = get(batch, layout, TIME)) != NULL) {
        PyObject *row[5] = {value, key, time, PyTuple_GetItem(held, NO_HEADERS), on_delivery};
        result = append_row(state, batch, row, size_bytes);
    }
    else {
        result = Py_NewRef(Py_None);
    }
done:
    Py_XDECREF(time);
    Py_XDECREF(now);
    Py_DECREF(batch);
    return result;
}

static PyMethodDef SEND = {"send", (PyCFunction)(void (*)(void))send, METH_FASTCALL, NULL};

static PyObject *
shortcut(PyObject *module, PyObject *args)
{
    State *state = PyModule_GetState(module);
    PyObject *held = NULL, *function;
    if (PyTuple_Size(args) != HELD - 1 || !PyDict_Check(PyTuple_GetItem(args, OPEN_BATCHES - 1))
        || !PyDict_Check(PyTuple_GetItem(args, ROUTES - 1)) || !PyLong_Check(PyTuple_GetItem(args, SMALLEST_BYTES - 1))
        || !PyBytes_Check(PyTuple_GetItem(args, NO_HEADERS - 1))) {
        PyErr_SetString(PyExc_TypeError, "shortcut: wrong arguments");
        return NULL;
    }
    for (int kind = DELIVERY; kind < CLASSES; kind++) {
        if (state->layouts[kind].class == NULL) {
            PyErr_SetString(PyExc_TypeError, "shortcut: classes are not bound");
            return NULL;
        }
    }
    PyObject *first = PyTuple_Pack(1, module);
    held = first == NULL ? NULL : PySequence_Concat(first, args);
    Py_XDECREF(first);
    function = held == NULL ? NULL : PyCFunction_NewEx(&SEND, held, NULL);
    Py_XDECREF(held);
    return function;
}

/* ------------------------------------------------------------------ writing records */

static inline int
varint_size(int64_t number)
{
    uint64_t raw = ((uint64_t)number << 1) ^ (uint64_t)(number >> 63);
    int size = 1;
    while (raw >>= 7) {
        size++;
    }
    return size;
}

static inline uint8_t *
write_varint(uint8_t *at, int64_t number)
{
    uint64_t raw = ((uint64_t)number << 1) ^ (uint64_t)(number >> 63);
    while (raw > 0x7f) {
        *at++ = (uint8_t)(raw | 0x80);
        raw >>= 7;
    }
    *at++ = (uint8_t)raw;
    return at;
}

static inline uint8_t *
write_field(uint8_t *at, PyObject *data)
{
    if (data == Py_None) {
        return write_varint(at, -1);
    }
    Py_ssize_t size = PyBytes_Size(data);
    at = write_varint(at, size);
    memcpy(at, PyBytes_AsString(data), (size_t)size);
    return at + size;
}

#define LARGEST_FIELD (INT32_MAX / 16) /* so that the size of a batch fits 32 bits */

/* Return the bytes of a row's record after its length, or -1 if the Python code must write it. */
static Py_ssize_t
row_size(PyObject *fields, Py_ssize_t row, int64_t base, int64_t *time)
{
    Py_ssize_t size = 1 + varint_size(row); /* attributes, offset */
    for (int at = 0; at < 2; at++) {        /* value, key */
        PyObject *data = PyList_GetItem(fields, 5 * row + at);
        if (data == Py_None) {
            size += 1;
        }
        else if (data != NULL && PyBytes_CheckExact(data) && PyBytes_Size(data) <= LARGEST_FIELD) {
            size += varint_size(PyBytes_Size(data)) + PyBytes_Size(data);
        }
        else {
            return -1;
        }
    }
    PyObject *timestamp = PyList_GetItem(fields, 5 * row + 2), *headers = PyList_GetItem(fields, 5 * row + 3);
    if (timestamp == NULL || headers == NULL || !PyLong_CheckExact(timestamp) || !PyBytes_CheckExact(headers)
        || PyBytes_Size(headers) > LARGEST_FIELD) {
        return -1;
    }
    *time = PyLong_AsLongLong(timestamp);
    if (*time < 0 || PyErr_Occurred()) { /* then no difference overflows */
        return -1;
    }
    return size + varint_size(*time - base) + PyBytes_Size(headers);
}

/* Return the records of a batch's rows and the latest of their timestamps; None if the Python code must encode them. */
static PyObject *
encode(PyObject *module, PyObject *fields)
{
    Py_ssize_t count = PyList_Size(fields) / 5, total = 0; /* -1 if it is no list */
    int64_t base = 0, time, latest = 0;
    for (Py_ssize_t row = 0; row < count; row++) {
        if (row == 0) {
            PyObject *first = PyList_GetItem(fields, 2);
            base = first != NULL && PyLong_CheckExact(first) ? PyLong_AsLongLong(first) : -1;
        }
        Py_ssize_t size = base < 0 ? -1 : row_size(fields, row, base, &time);
        if (size < 0 || total > INT32_MAX / 2) {
            PyErr_Clear();
            Py_RETURN_NONE;
        }
        total += varint_size(size) + size;
        latest = row == 0 || time > latest ? time : latest;
    }
    if (count <= 0) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    PyObject *encoded = PyBytes_FromStringAndSize(NULL, total);
    if (encoded == NULL) {
        return NULL;
    }
    uint8_t *at = (uint8_t *)PyBytes_AsString(encoded);
    for (Py_ssize_t row = 0; row < count; row++) {
        at = write_varint(at, row_size(fields, row, base, &time));
        *at++ = 0;
        at = write_varint(write_varint(at, time - base), row);
        at = write_field(write_field(at, PyList_GetItem(fields, 5 * row + 1)), PyList_GetItem(fields, 5 * row));
        PyObject *headers = PyList_GetItem(fields, 5 * row + 3);
        memcpy(at, PyBytes_AsString(headers), (size_t)PyBytes_Size(headers));
        at += PyBytes_Size(headers);
    }
    return Py_BuildValue("NL", encoded, (long long)latest);
}

/* ------------------------------------------------------------------ the module */

#ifdef FREE_THREADED
/* In the child of a fork: a thread of the parent can hold a lock, and would never release it. */
static PyObject *
reset_locks(PyObject *module, PyObject *unused)
{
    memset(locks, 0, sizeof(locks));
    Py_RETURN_NONE;
}

/* Have each child of a fork reset the locks; return -1 with an exception if that failed. */
static int
reset_after_fork(PyObject *module)
{
    PyObject *os = PyImport_ImportModule("os"), *none = PyTuple_New(0), *reset = PyObject_GetAttrString(module, "reset_locks");
    PyObject *at_fork = os == NULL ? NULL : PyObject_GetAttrString(os, "register_at_fork");
    PyObject *named = reset == NULL ? NULL : Py_BuildValue("{s:O}", "after_in_child", reset), *done = NULL;
    if (at_fork != NULL && none != NULL && named != NULL) {
        done = PyObject_Call(at_fork, none, named);
    }
    else if (os != NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) { /* Windows has no fork */
        PyErr_Clear();
        done = Py_NewRef(Py_None);
    }
    int failed = done == NULL;
    Py_XDECREF(done);
    Py_XDECREF(named);
    Py_XDECREF(at_fork);
    Py_XDECREF(reset);
    Py_XDECREF(none);
    Py_XDECREF(os);
    return failed ? -1 : 0;
}
#endif

static PyMethodDef FUNCTIONS[] = {
#ifdef FREE_THREADED
    {"reset_locks", reset_locks, METH_NOARGS, NULL},
#endif
    {"bind", bind, METH_VARARGS, NULL},
    {"murmur2", murmur2, METH_O, NULL},
    {"decode_records", decode_records, METH_VARARGS, NULL},
    {"decode_rows", decode_rows, METH_VARARGS, NULL},
    {"append_unlocked", (PyCFunction)(void (*)(void))append_unlocked, METH_FASTCALL, NULL},
    {"swap_room", (PyCFunction)(void (*)(void))swap_room, METH_FASTCALL, NULL},
    {"shortcut", shortcut, METH_VARARGS, NULL},
    {"encode", encode, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static int
start(PyObject *module)
{
    State *state = PyModule_GetState(module);
    memset(state, 0, sizeof(State));
    state->snapshot = PyUnicode_InternFromString("snapshot");
#ifdef FREE_THREADED
    if (reset_after_fork(module) < 0) {
        return -1;
    }
#endif
    return state->snapshot == NULL || PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0 ? -1 : 0;
}

static int
visit_state(PyObject *module, visitproc visit, void *arg)
{
    State *state = PyModule_GetState(module);
    for (int kind = 0; state != NULL && kind < CLASSES; kind++) {
        Py_VISIT(state->layouts[kind].class);
    }
    return 0;
}

static int
clear_state(PyObject *module)
{
    State *state = PyModule_GetState(module);
    for (int kind = 0; state != NULL && kind < CLASSES; kind++) {
        clear_layout(&state->layouts[kind]);
    }
    if (state != NULL) {
        Py_CLEAR(state->snapshot);
    }
    return 0;
}

static void
free_state(void *module)
{
    clear_state((PyObject *)module);
}

static PyModuleDef_Slot MODULE_SLOTS[] = {
    {Py_mod_exec, start},
#ifdef FREE_THREADED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef DEFINITION = {
    PyModuleDef_HEAD_INIT, "pykafka2_c", NULL, sizeof(State), FUNCTIONS, MODULE_SLOTS, visit_state, clear_state, free_state,
};

PyMODINIT_FUNC
PyInit_pykafka2_c(void)
{
    return PyModuleDef_Init(&DEFINITION);
}
