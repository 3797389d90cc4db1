# SPDX-License-Identifier: MIT
"""The files of examples/deploy are well formed, and every configuration and path in them is one that deltaprof knows.

    check_deploy.py SOURCE-ROOT DELTAPROF
"""
import os
import re
import subprocess
import sys
import unittest

try:
    import yaml
except ImportError:
    yaml = None

TOP, DELTAPROF = sys.argv[1:]
DEPLOY = os.path.join(TOP, 'examples/deploy')
# Alloy's block names, quoted strings and comments aside, its syntax is brackets that match.
PAIRS = {')': '(', ']': '[', '}': '{'}


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
                    found.update(re.findall(r'"(delta_\w+|heap|allocs|mutex|block)"', f.read()))
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
        spec = yaml.safe_load(text_of('kubernetes.yaml'))['spec']
        volumes = {volume['name'] for volume in spec['volumes']}
        for container in spec['initContainers'] + spec['containers']:
            for mount in container['volumeMounts']:
                self.assertIn(mount['name'], volumes)

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
            self.assertRegex(line, r'^(#.*|\[Service\]|Environment=\w+=\S+)$')

    def test_each_configuration_is_accepted(self):
        n = 0
        for name in os.listdir(DEPLOY):
            for conf in configurations(text_of(name)):
                n += 1
                # A token file that does not exist is an error of the machine, not of the file.
                conf = re.sub(r'token=[^,]*', 'token=none', conf).replace('%%', '%')
                conf = re.sub(r'(out|listen)=[^,]*,?', '', conf)
                done = subprocess.run([DELTAPROF, 'run', '-o', conf, '--', 'true'], text=True, capture_output=True)
                self.assertEqual((done.returncode, done.stderr), (0, ''), (name, conf))
        self.assertEqual(n, 3)

    def test_each_path_is_one_that_the_endpoint_has(self):
        known = endpoint_paths()
        asked = 0
        for name in os.listdir(DEPLOY):
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
