# SPDX-License-Identifier: MIT
"""What the recipes of examples/deploy for Docker, Kubernetes and systemd say, run as it stands there.

    test_recipes.py BUNDLE-DIRECTORY

Each container has a root with a C library, its program and nothing else, and namespaces of its own for mounts and
processes (container.py). All share one network, which is not the machine's, so ports and hosts are those of the recipe. The
only change: `heap_rate=1` where the program is the victim, whose sums are known.
"""
import glob
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import yaml

import container
import receiver
from programs import BUNDLE, CASES, CLEAN, GLIBC_COMPILER, HERE, MACHINE, TOP, compile_with, copy_glibc, run
from reader import by_function, files, load, sum_profiles

SUMS = {'hundred': 100000, 'thousand': 500000}
PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
REDIS_UNIT = '/lib/systemd/system/redis-server.service'
NEW_NETWORK = 0x40000000


def setUpModule():
    if os.geteuid() != 0 or MACHINE != os.uname().machine:
        raise unittest.SkipTest('not root, or the archive is for another machine')
    container.enter_namespaces(container.NEW_MOUNTS | NEW_NETWORK)
    run('ip', 'link', 'set', 'lo', 'up')


def text_of(name):
    with open(f'{TOP}/examples/deploy/{name}') as f:
        return f.read()


def wait_for(what):
    for tries_left in range(600, 0, -1):
        value = what()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError('nothing in a minute')


def copy_program(path, root):
    """A program of this machine with the libraries that it needs."""
    for name in [path, *re.findall(r'(/\S+) \(0x', run('ldd', path).stdout)]:
        os.makedirs(root + os.path.dirname(name), exist_ok=True)
        shutil.copy(name, root + name)


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w') as f:
        f.write(text)


class Recipe(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp()
        os.chmod(self.dir, 0o755)
        self.addCleanup(shutil.rmtree, self.dir)

    def make_root(self, name, *programs, hosts=()):
        root = f'{self.dir}/{name}'
        copy_glibc(root)
        for program in programs:
            copy_program(shutil.which(program), root)
        for place in 'dev/shm', 'proc', 'tmp', 'opt':
            os.makedirs(f'{root}/{place}')
        os.chmod(root + '/tmp', 0o1777)
        write(root + '/etc/passwd', 'root:x:0:0:root:/root:/bin/sh\nredis:x:101:102::/var/lib/redis:/usr/sbin/nologin\n')
        write(root + '/etc/hosts', ''.join(f'127.0.0.1 {host}\n' for host in ('localhost', *hosts)))
        return root

    def unpack(self, root):
        archive, = glob.glob(BUNDLE + '/deltaprof-*.tar.xz')
        run('tar', '-C', root + '/opt', '-xJf', archive)

    def start(self, root, argv, env, **more):
        job = {'root': root, 'argv': argv, 'env': {'PATH': PATH, **env}, 'mounts': [], **more}
        process = subprocess.Popen([sys.executable, container.__file__, json.dumps(job)], text=True, env=CLEAN,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(lambda: process.stdout.closed or print(*self.stop(process)))
        return process

    def stop(self, process):
        if process.poll() is None:
            process.terminate()
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def end(self, process, said=''):
        status, out, err = self.stop(process)
        self.assertEqual((status, err), (0, said), out)
        return out

    def ask(self, port, path, headers={}):
        def answer():
            try:
                with urllib.request.urlopen(urllib.request.Request(f'http://127.0.0.1:{port}{path}', headers=headers), timeout=30) as reply:
                    return reply.read()
            except OSError:
                return None
        return wait_for(answer)

    def use_redis(self):
        """Sets a hundred values of 100 kB each."""
        def connect():
            try:
                return socket.create_connection(('127.0.0.1', 6379), timeout=30)
            except OSError:
                return None
        with wait_for(connect) as redis, redis.makefile('rb') as replies:
            for i in range(100):
                redis.sendall(b'SET key%d %s\r\n' % (i, b'x' * 60000) * 2)
                self.assertEqual(replies.readline() + replies.readline(), b'+OK\r\n' * 2)

    def assert_redis_is_named(self, profiles):
        samples = [(sample.values['alloc_space'], sample.names) for profile in profiles for sample in profile.samples]
        self.assertGreater(sum(n for n, names in samples if 'main' in names), 1 << 20)
        self.assertIn('aeMain', {name for _, names in samples for name in names})


def with_heap(env):
    return {name: value + ',heap_rate=1' if name == 'DELTAPROF_CONF' else value for name, value in env.items()}


def conf_of(env):
    return dict(pair.split('=', 1) for pair in env['DELTAPROF_CONF'].split(','))


class Docker(Recipe):
    def test_the_image_serves_what_its_server_allocates(self):
        text = re.sub(r'\\\n', ' ', re.sub(r'(?m)^#.*\n', '', text_of('Dockerfile')))
        stages = [re.findall(r'(?m)^([A-Z]+) +(.*)$', stage) for stage in re.split(r'(?m)^(?=FROM )', text)[1:]]
        (_, first), (_, second) = stages[0][0], stages[1][0]
        self.assertRegex(first, r'^debian:\d+ AS deltaprof$')
        self.assertRegex(second, r'^debian:\d+$')
        steps = dict(stages[0])
        build, *more = [command.strip() for command in steps['RUN'].split('&&')]
        made = re.fullmatch(r'sh examples/deploy/bundle\.sh (/\S+)', build)[1]  # this was run: it made BUNDLE
        built = self.make_root('built')
        for command in more:
            run('sh', '-c', re.sub(r' (?=/opt\b)', ' ' + built, command.replace(made, BUNDLE)), timeout=120)

        steps = dict(stages[1])
        self.assertIn('install -y --no-install-recommends redis-server', steps['RUN'])
        image = self.make_root('image', 'redis-server')
        source, place = re.fullmatch(r'--from=deltaprof (\S+) (\S+)', steps['COPY']).groups()
        shutil.copytree(built + source, image + place, symlinks=True)
        env = dict(pair.split('=', 1) for pair in steps['ENV'].split())
        process = self.start(image, json.loads(steps['CMD']), env, user=steps['USER'])
        self.use_redis()
        port = conf_of(env)['listen'].rsplit(':', 1)[1]
        self.assert_redis_is_named([load(self.ask(port, '/debug/pprof/delta_heap'))])
        self.end(process)


class Pod(Recipe):
    """The parts of Kubernetes that the recipes use."""
    def load(self, name, secrets={}, hosts=()):
        spec = yaml.safe_load(text_of(name))['spec']
        self.spec = spec['template']['spec'] if 'template' in spec else spec
        self.volumes = {volume['name']: tempfile.mkdtemp(dir=self.dir) for volume in self.spec['volumes']}
        for volume in self.spec['volumes']:
            os.chmod(self.volumes[volume['name']], 0o777)  # as kubelet makes them
            if 'secret' in volume:  # through two links, so that all files change at once
                at = self.volumes[volume['name']]
                for file, text in secrets[volume['secret']['secretName']].items():
                    write(f'{at}/..2026/{file}', text)
                    os.symlink('..data/' + file, f'{at}/{file}')
                os.symlink('..2026', at + '/..data')
        self.deltaprof = self.make_root('deltaprof', 'cp', hosts=hosts)
        self.unpack(self.deltaprof)
        self.server = self.make_root('server')
        compile_with(GLIBC_COMPILER, HERE + '/victim.c', self.server + '/my-server')

    def container(self, spec):
        root, argv = {'registry.example/deltaprof': (self.deltaprof, None), 'registry.example/my-server': (self.server, ['/my-server'])}[spec['image']]
        given = {variable['name']: variable.get('value', 'node-1') for variable in spec.get('env', ())}
        argv = [re.sub(r'\$\((\w+)\)', lambda match: given[match[1]], word) for word in spec.get('command', argv)]
        mounts = [[self.volumes[m['name']], m['mountPath'], 'ro' if m.get('readOnly') else 'rw'] for m in spec['volumeMounts']]
        own_root = f'{root}-{spec["name"]}'  # each container has its own copy of the image
        shutil.copytree(root, own_root, symlinks=True)
        return self.start(own_root, argv, with_heap(given), mounts=mounts)

    def begin(self):
        """Runs the pod's initial containers in their order, starts the others."""
        self.beside = []
        for spec in self.spec.get('initContainers', ()):
            process = self.container(spec)
            if spec.get('restartPolicy') == 'Always':
                self.beside.append(process)
            else:
                self.assertEqual((process.communicate(timeout=60), process.returncode), (('', ''), 0))
        return [self.container(spec) for spec in self.spec['containers']]

    def test_the_pod_serves_what_its_server_allocates(self):
        self.load('kubernetes.yaml', {'deltaprof-token': {'token': 'secret\n'}})
        server, = self.begin()
        self.assertEqual(server.stdout.readline(), 'ready\n')
        port = self.spec['containers'][0]['ports'][0]['containerPort']
        profile = load(self.ask(port, '/debug/pprof/delta_heap', {'Authorization': 'Bearer secret'}))
        self.assertEqual(by_function(sum_profiles([profile]), 'alloc_space', set(SUMS)), SUMS)
        with self.assertRaisesRegex(urllib.error.HTTPError, '401'):
            urllib.request.urlopen(f'http://127.0.0.1:{port}/debug/pprof/delta_heap', timeout=30)
        self.assertEqual((server.communicate('', timeout=60), server.returncode), (('', ''), 0))

    def arrived(self, taking):
        """The sums of all profiles that the receiver took; those of the child, which opens no module, have no names."""
        profiles = [taken.profile for taken in taking.taken if taken.kind == 'memory']
        total = {name: 0 for name in SUMS}
        for profile in profiles:
            for sample in profile.samples:
                for name in set(sample.names) & set(SUMS):
                    total[name] += sample.values['alloc_space']
        return total

    def receive(self, url):
        port = int(url.rsplit(':', 1)[1])
        taking = receiver.Receiver()
        taking.port = port
        return taking

    def test_a_sidecar_sends_what_the_server_wrote(self):
        self.load('push-sidecar.yaml', {'push-token': {'token': 'secret\n'}}, hosts=['pyroscope.monitoring'])
        with self.receive('http://pyroscope.monitoring:4040') as taking:
            server, = self.begin()
            self.assertEqual(server.communicate('', timeout=60), ('ready\n', ''))
            for push in self.beside:  # they end after the server
                self.end(push)
        self.assertEqual(taking.refused, [])
        self.assertEqual(self.arrived(taking), SUMS)
        self.assertEqual({(taken.labels['service_name'], taken.headers['authorization']) for taken in taking.taken}, {('my-server', 'Bearer secret')})

    def test_a_daemon_set_sends_what_all_pods_of_a_node_wrote(self):
        self.load('push-sidecar.yaml', {'push-token': {'token': 'secret\n'}})
        server = next(spec for spec in self.spec['containers'])
        said = re.search(r'DELTAPROF_CONF: (\S+)', text_of('push-daemonset.yaml'))[1]
        server['env'] = [{**variable, 'value': said} if variable['name'] == 'DELTAPROF_CONF' else variable for variable in server['env']]
        self.spec['initContainers'] = self.spec['initContainers'][:1]
        written, = self.begin()
        self.assertEqual(written.communicate('', timeout=60), ('ready\n', ''))
        profiles = self.volumes['profiles']
        shutil.rmtree(self.deltaprof)
        shutil.rmtree(self.server)
        self.load('push-daemonset.yaml', hosts=['otel-collector.monitoring'])
        self.volumes['profiles'] = profiles
        with self.receive('http://otel-collector.monitoring:4318') as taking:
            push, = self.begin()
            wait_for(lambda: taking.refused or self.arrived(taking) == SUMS)
            self.end(push)
        self.assertEqual(taking.refused, [])
        self.assertEqual({taken.labels['host.name'] for taken in taking.taken}, {'node-1'})


def settings_of(*texts):
    """The settings of a unit and its drop-ins, in their order."""
    found = {}
    for name, value in re.findall(r'(?m)^(\w+)=(.*)$', '\n'.join(re.sub(r'(?s).*\[Service\]\n|\n\[Install\].*', '', text) for text in texts)):
        found.setdefault(name, []).append(value)
    return found


def numbers_of(calls):
    text = run('cpp', '-dM', '-include', 'asm/unistd.h', '/dev/null').stdout
    return sorted(int(number) for name, number in re.findall(r'#define __NR_(\w+) (\d+)', text) if name in calls)


def allowed_calls(filters):
    names = set()
    for value in filters:
        for group in value.lstrip('~ ').split():
            listed = run('systemd-analyze', 'syscall-filter', group).stdout if group[0] == '@' else group
            words = [word for line in listed.splitlines() for word in line.split() if line[:1] != '#' and not line.strip().startswith('#')]
            more = {word for word in words if word[0] != '@'} | {word for inner in words[1:] if inner[0] == '@' for word in allowed_calls([inner])}
            names = names - more if value[0] == '~' else names | more
    return names


@unittest.skipUnless(os.path.exists(REDIS_UNIT) and shutil.which('systemd-analyze'), 'no unit of redis-server, or no systemd')
class Systemd(Recipe):
    def service(self, root, *texts):
        """Starts the program of a unit with what systemd gives and takes, as far as a profiler may notice."""
        settings = settings_of(*texts)
        words = ' '.join(settings.get('Environment', ())).replace('%%', '%').split()
        mounts, options = [], []
        if 'ProtectSystem' in settings:
            options.append('ro')
        if settings.get('NoExecPaths') == ['/']:
            options.append('noexec')
        for path in [path for value in settings.get('ExecPaths', ()) for path in value.split()]:
            path = os.path.realpath(root + path)
            if os.path.exists(path):
                mounts.append([path, path[len(root):], 'exec,' + ','.join(set(options) - {'noexec'} or {'rw'})])
        places = [path.lstrip('-') for name in ('ReadWritePaths', 'ReadWriteDirectories') for value in settings.get(name, ()) for path in value.split()]
        places += ['/tmp'] if settings.get('PrivateTmp') else []
        places += ['/run/' + name for name in settings.get('RuntimeDirectory', ())]
        user, = settings['User']
        for place in places:
            os.makedirs(root + place, exist_ok=True)
            run('chown', '-R', '101:102', root + place)
            mounts.append([root + place, place, 'rw' + (',noexec' if 'noexec' in options else '')])
        return self.start(root, settings['ExecStart'][0].split(), dict(word.split('=', 1) for word in words), user=user, mounts=mounts,
                          options=','.join(options), filter=numbers_of(allowed_calls(settings.get('SystemCallFilter', ()))), is_service=True)

    def test_the_service_writes_profiles_which_another_service_sends(self):
        root = self.make_root('root', 'redis-server', hosts=['pyroscope.example'])
        self.unpack(root)
        shutil.copytree('/etc/redis', root + '/etc/redis')
        for place in 'lib', 'log':
            os.makedirs(f'{root}/var/{place}/redis')
        os.makedirs(root + '/run')
        os.symlink('/run', root + '/var/run')
        loader, = glob.glob(root + '/lib64/ld-*')  # a link into the system's libraries, in a system
        libraries = os.path.dirname(glob.glob(root + '/lib/*/libc.so.6')[0])
        shutil.move(loader, libraries)
        os.symlink(libraries[len(root):] + '/' + os.path.basename(loader), loader)
        with open(REDIS_UNIT) as f:
            redis = self.service(root, f.read(), text_of('systemd.conf'))
        self.use_redis()
        self.end(redis)
        out = conf_of(dict(re.findall(r'(?m)^Environment=(DELTAPROF_CONF)=(.*)$', text_of('systemd.conf'))))['out']
        heap = [load(path) for path in files(root + out, kind='heap')]
        self.assert_redis_is_named(heap)

        unit = text_of('push.service')
        url = re.search(r'--to (\S+)', unit)[1]
        header = re.search(r'--header (\S+)', unit)[1]
        write(root + header, 'X-Scope-OrgID: me\n')
        pem = f'{self.dir}/pem'
        host = url.split('//')[1]
        run('openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', pem, '-out', pem + '.crt', '-days', '2', '-subj', '/CN=' + host,
            '-addext', 'subjectAltName=DNS:' + host)
        with open(pem + '.crt') as f:
            certificate = f.read()
        with open(pem, 'a') as f:
            f.write(certificate)
        write(root + '/etc/ssl/certs/ca-certificates.crt', certificate)
        taking = receiver.Receiver(certificate=pem)
        taking.port = 443
        with taking:
            push = self.service(root, unit)
            wait_for(lambda: taking.refused or sum(taken.kind == 'memory' for taken in taking.taken) == len(heap))
            self.end(push)
        self.assertEqual(taking.refused, [])
        self.assertEqual({taken.headers['x-scope-orgid'] for taken in taking.taken}, {'me'})


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + CASES)
