# SPDX-License-Identifier: MIT
"""The real servers, on loopback: started from binaries that the environment names, and asked for sums by their own APIs.

    with Pyroscope(directory) as s:
        s.url('pyroscope') ... s.sums('shop')     # {(kind, type, labels): sum}
        s.kill(); s.start()

A binary that the environment does not name is not looked for: DELTAPROF_TEST_PYROSCOPE, DELTAPROF_TEST_PARCA,
DELTAPROF_TEST_OTELCOL.
"""
import base64
import collections
import gzip
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import otlp
import otlp_pb2
import reader
from google.protobuf import json_format
from profile_pb2 import Profile

# What the pusher says of a profile's origin; the other labels are those of samples.
ORIGIN = {'service_name', 'program', 'pid', 'host', 'instance', 'job'}


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(('127.0.0.1', 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Server:
    variable, n_ports, ready = '', 1, '/'

    @classmethod
    def binary(cls):
        return os.environ.get(cls.variable)

    def __init__(self, directory):
        self.directory, self.ports, self.process = directory, free_ports(self.n_ports), None
        os.makedirs(directory, exist_ok=True)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill(signal.SIGKILL)

    def start(self):
        self.log = open(os.path.join(self.directory, 'server.log'), 'ab')
        self.process = subprocess.Popen([self.binary(), *self.arguments()], cwd=self.directory, stdout=self.log, stderr=self.log)
        until = time.monotonic() + 240
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError('%s did not start: %s' % (self.binary(), self.said()))
            time.sleep(0.1)

    def is_ready(self):
        try:
            return self.get(self.ready) is not None
        except (OSError, urllib.error.URLError):
            return False

    def said(self):
        with open(os.path.join(self.directory, 'server.log'), errors='replace') as f:
            return f.read()[-3000:]

    def close(self):
        self.kill(signal.SIGKILL)

    def kill(self, number=signal.SIGTERM):
        if self.process:
            self.process.send_signal(number)
            self.process.wait(120)
            self.log.close()
            self.process = None

    def url(self, protocol):
        return '%s+http://127.0.0.1:%d' % (protocol, self.ports[0])

    def get(self, path, body=None, **query):
        url = 'http://127.0.0.1:%d%s' % (self.ports[0], path)
        if query:
            url += '?' + urllib.parse.urlencode(query)
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(url, data, {'Content-Type': 'application/json'} if data else {})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.read()

    def json(self, path, body=None, **query):
        return json.loads(self.get(path, body, **query))


class Pyroscope(Server):
    variable, n_ports, ready = 'DELTAPROF_TEST_PYROSCOPE', 5, '/ready'

    def arguments(self):
        http, grpc, raft, members, admin = self.ports
        return ['-config.show_banner=false', '-architecture.storage=v2', '-usage-stats.enabled=false', '-self-profiling.disable-push=true', '-log.level=warn',
                '-server.http-listen-address=127.0.0.1', '-server.http-listen-port=%d' % http,
                '-server.grpc-listen-address=127.0.0.1', '-server.grpc-listen-port=%d' % grpc,
                '-memberlist.bind-port=%d' % members, '-admin-server.http-listen-port=%d' % admin,
                '-metastore.address=127.0.0.1:%d' % grpc, '-query-backend.address=127.0.0.1:%d' % grpc,
                *('-%s=127.0.0.1:%d' % (name, raft) for name in ('metastore.raft.server-id', 'metastore.raft.bind-address', 'metastore.raft.advertise-address')),
                *('-%s=127.0.0.1' % name for name in (
                    'memberlist.bind-addr', 'memberlist.advertise-addr', 'compactor.ring.instance-addr', 'distributor.ring.instance-addr',
                    'ingester.lifecycler.addr', 'overrides-exporter.ring.instance-addr', 'query-frontend.instance-addr',
                    'query-scheduler.ring.instance-addr', 'segment-writer.lifecycler.addr', 'store-gateway.sharding-ring.instance-addr')),
                *('-%s.min-ready-duration=0s' % name for name in ('ingester', 'metastore', 'segment-writer')),
                *('-%s=%s/%s' % (name, self.directory, directory) for name, directory in (
                    ('metastore.data-dir', 'metastore'), ('metastore.raft.dir', 'raft'), ('metastore.raft.snapshots-dir', 'raft'),
                    ('pyroscopedb.data-path', 'db'), ('storage.filesystem.dir', 'storage')))]

    def ask(self, verb, **fields):
        now = int(time.time() * 1000)
        return self.json('/querier.v1.QuerierService/' + verb, {'start': now - 7200000, 'end': now + 3600000, **fields})

    def sums(self, service):
        out = collections.Counter()
        for series in self.ask('Series', matchers=['{service_name="%s"}' % service]).get('labelsSet', []):
            labels = {l['name']: l['value'] for l in series['labels']}
            # of samples with a label and of those without it alike: an empty matcher is one for its absence
            exact = {k: v for k, v in labels.items() if not k.startswith('__')}
            own = tuple(sorted((k, v) for k, v in exact.items() if k not in ORIGIN))
            selector = '{%s}' % ','.join('%s=%s' % (k, json.dumps(v)) for k, v in {'lock': '', 'heap': '', **exact}.items())
            reply = self.ask('SelectMergeProfile', profileTypeID=labels['__profile_type__'], labelSelector=selector)
            profile = json_format.ParseDict(reply, Profile(), ignore_unknown_fields=True)
            value = sum(s.value[0] for s in profile.sample)
            if value:
                out[labels['__name__'], labels['__type__'], own] = value
        return dict(out)


class Parca(Server):
    """It drops the labels of samples. configuration: scrape_configs, as JSON."""
    variable, ready = 'DELTAPROF_TEST_PARCA', '/metrics'
    scrape_configs = []

    def arguments(self):
        path = os.path.join(self.directory, 'parca.yaml')
        with open(path, 'w') as f:  # JSON is YAML
            json.dump({'object_storage': {'bucket': {'type': 'FILESYSTEM', 'config': {'directory': self.directory + '/data'}}},
                       'scrape_configs': self.scrape_configs}, f)
        return ['--config-path=' + path, '--http-address=127.0.0.1:%d' % self.ports[0], '--debuginfod-upstream-servers=',
                '--storage-path=' + self.directory + '/store', '--enable-persistence', '--storage-enable-wal', '--log-level=warn']

    def scraped(self):
        """The jobs whose targets all answered."""
        targets = self.json('/api/targets').get('targets', {})
        return {job for job, some in targets.items() if some.get('targets') and all(t.get('health') == 'HEALTH_GOOD' for t in some['targets'])}

    def sums(self, service):
        return self.ask('service_name="%s"' % service, lambda names: True)

    def sums_of(self, function):
        """Of all services, {(kind, type): sum} over the stacks with that function."""
        return {key[:2]: value for key, value in self.ask('', lambda names: function in names).items()}

    def ask(self, selector, counts):
        out = {}
        now = time.time()
        start, end = (time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(t)) for t in (now - 7200, now + 3600))
        for t in self.json('/api/profiles/types').get('types', []):
            name = '%s:%s:%s:%s:%s%s' % (t['name'], t['sampleType'], t['sampleUnit'], t['periodType'], t['periodUnit'],
                                        ':delta' if t.get('delta') else '')
            reply = self.json('/api/profiles/query', **{
                'mode': 'MODE_MERGE', 'report_type': 'REPORT_TYPE_PPROF', 'merge.query': '%s{%s}' % (name, selector),
                'merge.start': start, 'merge.end': end})
            if reply.get('pprof'):
                raw = base64.b64decode(reply['pprof'])
                profile = reader.Profile(Profile.FromString(gzip.decompress(raw) if raw[:2] == b'\x1f\x8b' else raw))
                out[t['name'], t['sampleType'], ()] = sum(v for s in profile.samples if counts(s.names) for v in s.values.values())
        return {k: v for k, v in out.items() if v}


class Collector(Server):
    """An OpenTelemetry collector with receivers, which are like those of its configuration, and the exporter file."""
    variable, n_ports = 'DELTAPROF_TEST_OTELCOL', 1

    def __init__(self, directory, receivers=None):
        super().__init__(directory)
        endpoint = '127.0.0.1:%d' % self.ports[0]
        self.receivers = receivers or {'otlp': {'protocols': {'http': {'endpoint': endpoint}}}}
        for of_pprof in self.receivers.values():
            of_pprof.get('server', {}).update(endpoint=endpoint)
        self.listens = any('remote' not in r for r in self.receivers.values())

    def arguments(self):
        path = os.path.join(self.directory, 'collector.yaml')
        with open(path, 'w') as f:
            json.dump({'receivers': self.receivers,
                       'exporters': {'file': {'path': self.directory + '/out', 'append': True, 'format': 'proto'}},
                       'service': {'telemetry': {'metrics': {'level': 'none'}},
                                   'pipelines': {'profiles': {'receivers': list(self.receivers), 'exporters': ['file']}}}}, f)
        return ['--config=file:' + path, '--feature-gates=+service.profilesSupport']

    def is_ready(self):
        if not self.listens:
            return 'Everything is ready' in self.said()
        with socket.socket() as s:
            return s.connect_ex(('127.0.0.1', self.ports[0])) == 0

    def messages(self):
        with open(self.directory + '/out', 'rb') as f:
            while size := f.read(4):
                yield otlp_pb2.Request.FromString(f.read(int.from_bytes(size, 'big')))

    def sums_of_plain(self, frame=None):
        """{(type, labels): sum} of profiles that came as pprof: they have no kind and no service. frame: of stacks with it."""
        out = collections.Counter()
        for message in self.messages():
            for (names, labels), values in otlp.rows(message).items():
                for name, value in values.items() if not frame or frame in names else ():
                    out[name, labels] += value
        return {k: v for k, v in out.items() if v}

    def sums(self, service):
        out = collections.Counter()
        for message in self.messages():
            [resource] = message.resource_profiles
            kind = otlp.pairs(message, resource.scope_profiles[0].scope.attributes)['deltaprof.kind']
            if otlp.pairs(message, resource.resource.attributes)['service.name'] == service:
                for (_, labels), values in otlp.rows(message).items():
                    for name, value in values.items():
                        out[kind, name, labels] += value
        return {k: v for k, v in out.items() if v}
