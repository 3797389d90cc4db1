# SPDX-License-Identifier: MIT
"""`deltaprof tree` on profiles made by hand.

    test_tree.py DELTAPROF
"""
import json
import unittest

from by_hand import Case


class Tree(Case):
    def one(self):
        return self.file('p', [(['leaf', 'work', 'main'], [1, 60, 1, 600]), (['other', 'main'], [1, 30, 1, 300]),
                               (['main'], [1, 9, 1, 90])] + [(['small%d' % i, 'main'], [1, 1, 1, 5]) for i in range(2)])

    def tree(self, *arguments):
        lines = self.run_it('tree', *arguments).decode().splitlines()
        return lines[next(i for i, line in enumerate(lines) if line.split()[:1] == ['Total:']):]

    def test_the_whole_of_a_small_tree(self):
        self.assertEqual('\n'.join(self.tree(self.one())), '''\
Total: 1000B
       cum   cum%  name
     1000B 100.0%  main
      600B  60.0%    work
                     leaf
      300B  30.0%    other
       10B   1.0%    (2 more)''')

    def test_small_nodes_are_counted_together(self):
        self.assertIn('        5B   0.5%    small0', self.tree('--min', '0.1', self.one()))
        self.assertIn('      310B  31.0%    (3 more)', self.tree('--min', '50%', self.one()))
        for wrong in '-3', '%', '', '101', '5x', 'nan':
            self.run_it('tree', '--min', wrong, self.one(), status=2)
            self.assertEqual(self.error, 'deltaprof tree: --min %s is not a percentage, which is a number from 0 to 100\n' % wrong)

    def test_callers_and_callees_of_a_function(self):
        path = self.file('p', [(['malloc', 'f', 'a', 'main'], [1, 1, 1, 60]), (['f', 'b', 'f', 'main'], [1, 1, 1, 30]),
                               (['x', 'main'], [1, 1, 1, 10])])
        self.assertEqual('\n'.join(self.tree('--callers', '^f$', path)), '''\
Total: 100B
       cum   cum%  callers of ^f$
       90B  90.0%  f
       60B  60.0%    a
                     main
       30B  30.0%    b
                     f
                     main''')
        self.assertEqual('\n'.join(self.tree('--callees', '^f$', path)[1:]), '''\
       cum   cum%  callees of ^f$
       90B  90.0%  f
       60B  60.0%    malloc
       30B  30.0%    b
                     f''')
        self.run_it('tree', '--callers', 'none', path, status=1)
        self.assertEqual(self.error, 'deltaprof tree: no function matches none; deltaprof top -n0 names them all\n')
        self.run_it('tree', '--callers', '[', path, status=2)

    def test_json_is_the_whole_tree(self):
        tree = json.loads(self.run_it('tree', '--json', self.one()))
        self.assertEqual((tree['type'], tree['unit'], tree['total']), ('inuse_space', 'bytes', 1000))
        main, = tree['children']
        self.assertEqual((main['name'], main['flat'], main['cum'], len(main['children'])), ('main', 90, 1000, 4))
        self.assertEqual(main['children'][0], {'name': 'work', 'flat': 0, 'cum': 600, 'children': [
            {'name': 'leaf', 'flat': 600, 'cum': 600, 'children': []}]})
        tree = json.loads(self.run_it('tree', '--json', '--callers', 'leaf', '--callees', 'work', self.one()))
        self.assertEqual((tree['callers'][0]['children'][0]['name'], tree['callees'][0]['cum']), ('work', 600))

    def test_a_very_deep_stack_ends(self):
        path = self.file('p', [(['f%d' % (i % 7) for i in range(100_000)], [1, 1, 1, 1])])
        self.assertEqual(len(self.tree(path)), 100_002)

    def test_an_empty_tree_has_a_reason(self):
        self.assertIn('Nothing: nothing is in use at that time.', self.tree('--type', 'inuse_space', self.file('p', [(['f'], [1, 1, 0, 0])])))


if __name__ == '__main__':
    unittest.main()
