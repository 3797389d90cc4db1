# SPDX-License-Identifier: MIT
"""The files of examples/deploy are well formed, and every configuration and path in them is one that deltaprof knows.

    check_deploy.py SOURCE-ROOT DELTAPROF
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

try:
    import yaml
except ImportError:
    yaml = None

TOP, DELTAPROF = sys.argv[1:]
DEPLOY = os.path.join(TOP, 'examples/deploy')
# Alloy's block names, quoted strings and comments aside, its syntax is brackets that match.
PAIRS = {')': '(', ']': '[', '}': '{'}


def names_of_files():
    return [entry.name for entry in os.scandir(DEPLOY) if entry.is_file()]


def text_of(name):
    with open(os.path.join(DEPLOY, name)) as f:
        return f.read()


def configurations(text):
    """The values of DELTAPROF_CONF in a file, whatever its syntax."""
    return re.findall(r'DELTAPROF_CONF(?:=|, value: ")([^"\s\\]+)', text)


def endpoint_paths():
    """What the endpoint answers, from its index in the source of the library."""
    found = set()
    for directory, _, names in os.walk(os.path.join(TOP, 'src')):
        for name in names:
            if name.endswith('.c'):
                with open(os.path.join(directory, name)) as f:
                    found.update(re.findall(r'"(delta_\w+|heap|allocs|mutex|block|metrics)"', f.read()))
    return found


class Deploy(unittest.TestCase):
    def test_every_file_stands_in_the_readme(self):
        names = set(os.listdir(DEPLOY)) - {'README.md'}
        self.assertEqual(set(re.findall(r'\]\(([\w.-]+)\)', text_of('README.md'))), names)

    @unittest.skipUnless(yaml, 'python3-yaml is not installed')
    def test_yaml_files_parse(self):
        for name in os.listdir(DEPLOY):
            if name.endswith('.yaml'):
                self.assertTrue(yaml.safe_load(text_of(name)), name)

    @unittest.skipUnless(yaml, 'python3-yaml is not installed')
    def test_each_volume_that_a_container_mounts_exists(self):
        for name in 'kubernetes.yaml', 'push-sidecar.yaml', 'push-daemonset.yaml':
            spec = yaml.safe_load(text_of(name))['spec']
            spec = spec['template']['spec'] if 'template' in spec else spec
            volumes = {volume['name'] for volume in spec['volumes']}
            used = {mount['name'] for c in spec.get('initContainers', []) + spec['containers'] for mount in c['volumeMounts']}
            self.assertEqual(used, volumes, name)

    @unittest.skipUnless(yaml, 'python3-yaml is not installed')
    def test_each_push_is_one_that_the_command_accepts(self):
        commands = re.findall(r'(?m)^ExecStart=(.*deltaprof push .*)$', text_of('push.service'))
        commands = [command.split() for command in commands]
        for name in 'push-sidecar.yaml', 'push-daemonset.yaml':
            spec = yaml.safe_load(text_of(name))['spec']
            spec = spec['template']['spec'] if 'template' in spec else spec
            commands += [c['command'] for c in spec.get('initContainers', []) + spec['containers'] if 'push' in c.get('command', ())]
        self.assertEqual(len(commands), 3)
        with tempfile.TemporaryDirectory() as empty:
            for command in commands:
                self.assertEqual((os.path.basename(command[0]), command[1]), ('deltaprof', 'push'))
                # The directory and the files with secrets are the machine's.
                arguments = [os.devnull if a.startswith('/etc/') else empty if a.startswith('/') else a for a in command[2:]]
                done = subprocess.run([DELTAPROF, 'push', *arguments, '--once'], text=True, capture_output=True)
                self.assertEqual((done.returncode, done.stderr), (0, ''), command)

    def test_each_line_of_the_unit_is_a_section_or_a_setting(self):
        for line in text_of('push.service').splitlines():
            self.assertRegex(line, r'^(|#.*|\[(Unit|Service|Install)\]|[A-Z]\w+=.+)$')

    @unittest.skipUnless(yaml, 'python3-yaml is not installed')
    def test_each_pipeline_of_the_collector_names_what_is_defined(self):
        conf = yaml.safe_load(text_of('otel-collector.yaml'))
        pipeline = conf['service']['pipelines']['profiles']
        self.assertEqual(set(pipeline['receivers']), set(conf['receivers']))
        self.assertEqual(set(pipeline['exporters']), set(conf['exporters']))

    def test_brackets_of_the_alloy_file_match(self):
        text = re.sub(r'"[^"\n]*"', '""', text_of('alloy.alloy'))
        text = re.sub(r'//.*', '', text)
        open_ones = []
        for c in text:
            if c in PAIRS.values():
                open_ones.append(c)
            elif c in PAIRS:
                self.assertTrue(open_ones and open_ones.pop() == PAIRS[c], c)
        self.assertEqual(open_ones, [])

    def test_each_line_of_the_systemd_file_is_a_section_or_a_setting(self):
        for line in text_of('systemd.conf').splitlines():
            self.assertRegex(line, r'^(#.*|\[Service\]|(Environment=\w+|ExecPaths)=\S+)$')

    def test_each_configuration_is_accepted(self):
        n = 0
        for name in names_of_files():
            for conf in configurations(text_of(name)):
                n += 1
                # A token file that does not exist is an error of the machine, not of the file.
                conf = re.sub(r'token=[^,]*', 'token=none', conf).replace('%%', '%')
                conf = re.sub(r'(out|listen)=[^,]*,?', '', conf)
                done = subprocess.run([DELTAPROF, 'run', '-o', conf, '--', 'true'], text=True, capture_output=True)
                self.assertEqual((done.returncode, done.stderr), (0, ''), (name, conf))
        self.assertEqual(n, 4)

    def test_each_path_is_one_that_the_endpoint_has(self):
        known = endpoint_paths()
        asked = 0
        for name in names_of_files():
            for path in re.findall(r'/debug/pprof/(\w+)', text_of(name)):
                asked += 1
                self.assertIn(path, known, name)
        self.assertGreaterEqual(asked, 7)

    def test_each_scraper_has_a_cursor_that_begins_now(self):
        for name in ('alloy.alloy', 'parca.yaml', 'otel-collector.yaml'):
            text = text_of(name)
            self.assertRegex(text, r'cursor', name)
            self.assertRegex(text, r'from\W+now', name)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
