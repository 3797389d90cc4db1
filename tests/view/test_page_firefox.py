# SPDX-License-Identifier: MIT
"""The page's clicks and keys in Firefox: tests of the other files that look at no picture.

    test_page_firefox.py DELTAPROF
"""
import shutil
import sys
import tempfile
import unittest

import firefox
import page_case
import test_page
import test_page_flames
import test_page_heat
import test_page_lanes
import test_page_looks
import test_page_opening
import test_page_waits
import test_page_workers

if not firefox.FIREFOX:
    print('no firefox')
    sys.exit(77)

OF_CLICKS_AND_KEYS = {
    test_page.Page: ['test_two_ranges_are_compared', 'test_a_row_of_a_label_or_a_process_filters_the_flames', 'test_tables_are_used_by_keys'],
    test_page_flames.Flames: ['test_zoom_focus_and_keys', 'test_the_window_is_dragged_and_zoomed_by_the_wheel', 'test_search_and_only', 'test_a_link_shows_the_same',
                              'test_the_shown_range_can_be_saved', 'test_files_are_dropped_onto_it'],
    test_page_heat.Heat: ['test_a_block_has_just_its_samples', 'test_a_block_is_moved_by_keys'],
    test_page_lanes.Lanes: ['test_a_lane_tells_what_its_thread_did_when', 'test_the_range_is_that_of_all_views_and_a_click_leaves_one_thread'],
    test_page_looks.Looks: ['test_slash_goes_to_the_search_field_from_anywhere'],
    test_page_opening.Opening: ['test_a_click_on_a_lock_shows_the_time_that_its_holder_cost', 'test_a_click_on_a_leak_shows_what_it_kept', 'test_the_most_of_a_small_chart_is_a_click_away',
                           'test_the_keys_are_listed_on_demand'],
    test_page_waits.Waits: ['test_the_graph_begins_at_the_worst_holder_and_can_be_followed'],
    test_page_workers.Workers: ['test_a_click_on_a_family_leaves_its_processes'],
}


if __name__ == '__main__':
    downloads = tempfile.mkdtemp()
    shared = firefox.Firefox(downloads)  # one for all: it takes seconds to start

    def use(cls):
        cls.downloads, cls.browser = downloads, shared

    page_case.PageCase.setUpClass, page_case.PageCase.tearDownClass = classmethod(use), classmethod(lambda cls: None)
    suite = unittest.TestSuite(case(name) for case, names in OF_CLICKS_AND_KEYS.items() for name in names)
    try:
        done = unittest.TextTestRunner(verbosity=2).run(suite)
    finally:
        shared.close()
        shutil.rmtree(downloads, ignore_errors=True)
    sys.exit(not done.wasSuccessful())
