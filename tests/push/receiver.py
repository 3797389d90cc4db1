# SPDX-License-Identifier: MIT
"""A strict receiver of profiles. It decodes them by protobuf, refuses what real receivers refuse, and can be told to fail.

    with Receiver() as r:
        r.plan = ['503', 'reset']      # the next requests fail so, those after them succeed
        ... r.url('pyroscope') ...
        r.taken                        # [Taken]: what it accepted, in order

Ways to fail: a status ('503', '429 Retry-After: 1'); 'reset' reads the request and closes without an answer; 'taken'
accepts it and closes without an answer; 'early' closes before it has read the body; 'crawl' reads the body byte by byte;
'half' accepts it and sends half of a status line; 'cut' accepts it and sends only the status line; 'slow' accepts it and
sends the reply byte by byte, for ever; 'hang' accepts it and sends nothing.
"""
import base64
import collections
import gzip
import json
import re
import socket
import ssl
import struct
import threading
import time

import profile_pb2
import otlp
import pyroscope_pb2
from reader import Profile, Sample

Rows = collections.namedtuple('Rows', 'samples time_ns duration_ns')
Taken = collections.namedtuple('Taken', 'kind labels profile id headers')


class Refused(Exception):
    pass


def demand(true, what):
    if not true:
        raise Refused(what)


def load(data, limit_bytes=None, limit_samples=None):
    demand(data[:2] == b'\x1f\x8b', 'the profile is not gzipped')
    raw = gzip.decompress(data)
    demand(not limit_bytes or len(raw) <= limit_bytes, 'too many bytes: %d' % len(raw))
    message = profile_pb2.Profile.FromString(raw)
    demand(not limit_samples or len(message.sample) <= limit_samples, 'too many samples: %d' % len(message.sample))
    profile = Profile(message)
    demand(profile.types and profile.samples and profile.time_ns > 0, 'types, samples or time are missing')
    ids = {l.id for l in message.location}
    demand(all(i in ids for s in message.sample for i in s.location_id), 'a location that is not there')
    demand(all(len(s.value) == len(profile.types) for s in message.sample), 'values')
    demand(message.default_sample_type == 0 or message.string_table[message.default_sample_type] in dict(profile.types), 'default')
    return profile


def check_labels(labels):
    demand(len(labels) <= 30, 'too many labels')
    demand(len(dict(labels)) == len(labels), 'a label twice: %r' % labels)
    for name, value in labels:
        demand(re.fullmatch('[a-zA-Z_][a-zA-Z0-9_]*', name), 'label name %r' % name)
        demand(value and len(value.encode()) <= 2048, 'label %s is empty or long' % name)
        demand(not name.startswith('__') or name in ('__name__', '__delta__'), 'reserved label ' + name)
    demand(dict(labels).get('__name__') in ('memory', 'mutex', 'block', 'process_cpu', 'chain', 'wall'), 'no __name__: %r' % labels)
    return dict(labels)


def take_pyroscope(headers, body):
    demand(headers['content-type'] == 'application/proto', 'Content-Type')
    request = pyroscope_pb2.PushRequest.FromString(body)
    for series in request.series:
        labels = check_labels([(l.name, l.value) for l in series.labels])
        demand(labels.get('service_name'), 'no service_name')
        demand(labels.get('__delta__') == 'false', 'no __delta__')
        for sample in series.samples:
            profile = load(sample.raw_profile, 4 << 20, 16000)
            demand(all(profile.period_type), 'no period type: Pyroscope fails, if a value is negative')
            now = time.time_ns()
            demand(now - 3600e9 < profile.time_ns < now + 600e9, 'outside of the ingestion window')
            yield labels['__name__'], labels, profile, sample.id


def take_parca(headers, body):
    demand(headers['content-type'] == 'application/json', 'Content-Type')
    request = json.loads(body)
    demand(set(request) == {'series', 'normalized'}, 'fields')
    for series in request['series']:
        labels = check_labels([(l['name'], l['value']) for l in series['labels']['labels']])
        for sample in series['samples']:
            profile = load(base64.b64decode(sample['rawProfile'], validate=True))
            types = [t for t, _ in profile.types]
            demand(all(profile.period_type), 'no period type: Parca accepts it, and can answer no query any more')
            if profile.duration_ns:
                demand(not any(t.startswith('inuse') for t in types), 'in-use values in a delta')
            yield labels['__name__'], labels, profile, None


def take_pprof(headers, body):
    profile = load(body)
    kind = {'alloc_objects': 'memory', 'contentions': 'lock', 'samples': 'process_cpu'}[profile.types[0][0]]
    yield kind, {}, profile, headers.get('idempotency-key', '').strip('"')


def take_otlp(headers, body):
    demand(headers['content-type'] == 'application/x-protobuf' and headers.get('content-encoding') == 'gzip', 'headers')
    message = otlp.load(body)
    [resource] = message.resource_profiles
    origin = {a.key: a.value.string_value or a.value.int_value for a in resource.resource.attributes}
    for a in resource.scope_profiles[0].scope.attributes:
        origin[a.key] = a.value.string_value
    demand(origin.get('service.name') and origin.get('host.name') and origin.get('process.pid'), 'resource: %r' % origin)
    found = otlp.profiles(message)
    demand(all(p.time_unix_nano and p.duration_nano and len(p.profile_id) == 16 for p in found), 'time or id')
    names = [otlp.type_of(message, p)[0] for p in found]
    kind = {('alloc_objects', 'alloc_space', 'inuse_objects', 'inuse_space'): 'memory', ('contentions', 'delay'): 'lock',
            ('samples', 'cpu'): 'process_cpu'}[tuple(names)]
    demand(origin['deltaprof.kind'] in ('heap', 'mutex', 'block', 'chain', 'cpu', 'wall', 'events'), 'kind')
    samples = [Sample((), frames, labels, values) for (frames, labels), values in otlp.rows(message).items()]
    yield kind, origin, Rows(samples, found[0].time_unix_nano, found[0].duration_nano), found[0].profile_id


PATHS = {
    '/v1development/profiles': take_otlp,
    '/push.v1.PusherService/Push': take_pyroscope,
    '/api/profiles/writeraw': take_parca,
    '/v1/pprof': take_pprof,
}
ANSWERS = {'/v1/pprof': '204 No Content'}


class Receiver:
    def __init__(self, certificate=None, tells_duplicates=False):
        self.taken, self.refused, self.plan, self.seen = [], [], [], []
        self.n_requests = 0
        self.fails = None  # the bodies that are answered with 500
        self.reply_body = b''  # the body of replies to accepted requests
        self.tells_duplicates = tells_duplicates  # True: a profile with a known id is accepted and dropped
        self.ids = set()
        self.tls = None
        if certificate:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(certificate)
        self.socket, self.port, self.lock = None, 0, threading.Lock()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.bind(('127.0.0.1', self.port))
        self.port = self.socket.getsockname()[1]
        self.socket.listen(64)
        threading.Thread(target=self.serve, args=(self.socket,), daemon=True).start()

    def stop(self):
        if self.socket:
            self.socket.shutdown(socket.SHUT_RDWR)
            self.socket.close()
            self.socket = None

    def url(self, protocol, host='127.0.0.1'):
        return '%s+http%s://%s:%d' % (protocol, 's' if self.tls else '', host, self.port)

    def serve(self, listener):
        while True:
            try:
                connection = listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection):
        try:
            connection.settimeout(120)
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
            self.request(connection)
        except OSError:
            pass
        finally:
            connection.close()

    def request(self, connection):
        data = b''
        while b'\r\n\r\n' not in data:
            more = connection.recv(65536)
            if not more:
                return
            data += more
        head, body = data.split(b'\r\n\r\n', 1)
        line, *fields = head.decode().split('\r\n')
        headers = {k.lower(): v for k, v in (f.split(': ', 1) for f in fields if ': ' in f)}
        with self.lock:
            self.n_requests += 1
            how = self.plan.pop(0) if self.plan else 'ok'
        if how == 'early':
            self.reset(connection)
            return
        while how == 'crawl' and connection.recv(1):
            time.sleep(0.05)
        while len(body) < int(headers['content-length']):
            more = connection.recv(65536)
            if not more:
                return  # an incomplete request is ignored
            body += more
        path = line.split()[1]
        if how == 'reset':
            self.reset(connection)
            return
        if self.fails and self.fails(body):
            how = '500'
        if how[0] in '345':
            status, *more = how.split(' ', 1)
            self.reply(connection, status + ' Failed', b'as planned', *more)
            return
        try:
            demand(line == 'POST %s HTTP/1.1' % path and path in PATHS, line)
            if headers.get('content-encoding') == 'gzip':
                body = gzip.decompress(body)
            profiles = [Taken(*p, headers) for p in PATHS[path](headers, body)]
        except Exception as error:  # a Refused, or any error of decoding a wrong body
            self.refused.append(repr(error))
            self.reply(connection, '400 Bad Request', repr(error).encode())
            return
        with self.lock:
            for taken in profiles:
                if not (self.tells_duplicates and taken.id in self.ids):
                    self.taken.append(taken)
                self.ids.add(taken.id)
        if how == 'taken':
            self.reset(connection)
        elif how == 'half':
            connection.sendall(b'HTTP/1.1 2')
        elif how == 'cut':
            connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{')
            self.reset(connection)
        elif how == 'slow':
            for byte in b'HTTP/1.1 200 OK\r\n' + b'X-Slow: yes\r\n' * 10000:
                connection.sendall(bytes([byte]))
                time.sleep(2)
        elif how == 'hang':
            connection.recv(1)
        else:
            self.reply(connection, ANSWERS.get(path, '200 OK'), self.reply_body)

    @staticmethod
    def reset(connection):
        if not isinstance(connection, ssl.SSLSocket):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))

    @staticmethod
    def reply(connection, status, body, *headers):
        lines = ['HTTP/1.1 ' + status, 'Content-Length: %d' % len(body), 'Connection: close', *headers, '', '']
        connection.sendall('\r\n'.join(lines).encode() + body)


def sums(profiles):
    """{(type, sample labels): sum} over profiles of one kind."""
    total = collections.Counter()
    for profile in profiles:
        for sample in profile.samples:
            for kind, value in sample.values.items():
                total[kind, sample.labels] += value
    return {key: value for key, value in total.items() if value}
