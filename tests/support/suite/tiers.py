"""Tests marked `long`: they run by `make test-long` and each night, not with the other tests.

`make test` has to answer in minutes. A fact that costs much leaves it where `make test` keeps the same fact of another
kind (another figure, window, step or row of a table), or where `make demo`, which CI runs too, shows it. The faults
have a separate list: `quick` in their catalogue.
"""

from collections.abc import Iterable, Mapping

import pytest

ALL = ("",)

LONG: Mapping[str, tuple[str, ...]] = {
    "tests/e2e/airflow/test_approval.py": ALL,  # tests/dags/test_cutover_dag.py, tests/integration/gate
    "tests/e2e/airflow/test_chain.py": ALL,  # `make demo` runs the chain; drivers are killed in tests/faults
    "tests/e2e/streaming/test_detached.py": ALL,  # `make demo` detaches its drivers; tests/integration/drills too
    "tests/e2e/streaming/test_panes_killed.py": ALL,  # the points of death: tests/integration/streaming/test_panes.py
    "tests/e2e/streaming/test_terminal.py": ALL,
    "tests/integration/drills/test_quick.py": ALL,  # `.ci/run` runs it after `make test`
    "tests/integration/infra/test_up_and_down.py": (
        "test_broker_comes_back_when_it_is_killed_and_leaves_nothing_when_stopped",
        "test_what_a_killed_supervisor_left_is_cleared_before_the_next_start",
    ),
    "tests/integration/lineage/test_events.py": (
        "test_a_second_driver_and_a_second_batch_run",
        "test_a_server_is_sent_the_same",
    ),
    "tests/integration/log/test_bad_line.py": ALL,
    "tests/integration/batch/test_legacy.py": (
        "test_from_the_definition_to_the_teams_sql_the_table_changes_its_columns",
        "test_another_sql_makes_every_window_dirty_and_clears_what_it_leaves_out",
        "test_sql_that_does_not_fit_publishes_nothing[query4",
        "test_sql_that_does_not_fit_publishes_nothing[query5",
    ),
    "tests/integration/batch/repair/test_repair_killed.py": ALL,  # tests/integration/batch/repair/test_repair.py
    "tests/integration/batch/test_truth.py": (
        "test_runs_at_several_cuts_end_at_the_truth_of_the_whole_log[SlidingWindows",
    ),
    "tests/integration/benchmarks/test_runner.py": ALL,
    "tests/integration/lake/test_serving_table.py": (
        "test_table_holds_the_rows_of_the_view[SHADOW]",
        "test_every_window_can_be_published[fixed]",
        "test_every_window_can_be_published[daily]",
        "test_what_others_changed_is_written_again",
        "test_another_definition_takes_the_same_name",
        "test_readers_see_no_gap_no_mix_and_no_way_back_in_100_switches",
        "test_a_table_that_cannot_be_published_keeps_no_way_back_shut",
    ),
    "tests/integration/streaming/versions/test_swap.py": (  # tests/property: any split folds to the same
        "test_windows_and_measures_of_every_kind",
    ),
    "tests/integration/reconcile/diff/test_kept_property.py": (
        "test_kept_digests_change_no_result[time]",
        "test_kept_digests_change_no_result[date]",
        "test_kept_digests_change_no_result[whole]",
    ),
    "tests/integration/reconcile/attribution/test_property.py": (  # tests/property/folds/test_components.py
        "test_the_ledger_explains",
    ),
    "tests/integration/reconcile/preconditions/test_damaged_lake.py": ("batch_index]", "_control/gate]"),
    "tests/integration/reconcile/preconditions/test_in_force.py": ("later epochs]",),
    "tests/integration/reconcile/attribution/test_planted.py": (
        "test_a_planted_difference_is_found[doubled]",
        "test_a_planted_difference_is_found[swapped keys]",
        "test_a_planted_difference_is_found[null key deleted]",
        "test_a_wrong_end_of_a_window_of_the_batch_is_found[1]",
        "test_a_wrong_end_of_a_window_of_the_stream_is_found[1]",
    ),
    "tests/integration/reconcile/test_present.py": (
        "test_nothing_compared_is_not_comparable_with_reason_and_next_command",
        "test_nothing_is_compared_beside_a_control_table_that_is_gone",
        "test_a_table_of_the_pipeline_that_is_gone_is_named_by_all",
    ),
    "tests/integration/reconcile/attribution/test_proof.py": (
        "test_position_that_holds_another_record_explains_nothing[late",
        "test_wrong_minimum_or_maximum_is_not_hidden_by_a_late_record_beyond_it[{'most'",
    ),
    "tests/integration/reconcile/test_run.py": ("test_twenty_clean_lakes_are_consistent",),
    "tests/integration/reconcile/attribution/test_lookups.py": (
        # One after another on one lake: what one leaves the next one needs.
        "test_a_self_test_plants_other_rows",
        "test_a_teams_sql_sees_the_columns_too",
        "test_every_check_holds_and_replays_agree",
        "test_a_fork_that_joined_a_newer_version",
        "test_a_replay_joins_what_is_there_now",
        "test_a_version_that_was_vacuumed",
        "test_a_version_with_a_key_twice",
    ),
    "tests/integration/reconcile/timeliness/test_open_windows.py": (
        "test_of_panes_the_newest_is_shown_and_may_lag[accumulating]",
        "test_of_panes_the_newest_is_shown_and_may_lag[retracting]",
        "test_what_was_accepted_is_what_the_log_holds[2]",
        "test_what_was_accepted_is_what_the_log_holds[3]",
    ),
    "tests/integration/reconcile/preconditions/test_lost.py": (
        "test_touched_windows_are_not_compared_and_all_others_are[2",
        "test_touched_windows_are_not_compared_and_all_others_are[3",
        "test_explained_cell_says_that_its_window_is_lost[1",
        "test_explained_cell_says_that_its_window_is_lost[2",
    ),
    "tests/integration/reconcile/test_selftest.py": (
        "test_rows_that_a_report_would_leave_out_are_judged_too",
        "test_one_seed_plants_the_same",
        "test_a_reconciler_that_errs_is_found_out[_sees_late_rows",
        "test_a_reconciler_that_errs_is_found_out[_sees_other_kinds",
        "test_what_a_refusal_does_not_speak_of_is_planted_and_compared_again",
        "test_sessions_are_tested_too",
        "test_a_row_that_differed_before_needs_the_planted_cause_and_kind",
        "test_the_command_records_what_it_found",
    ),
    "tests/integration/metrics/test_dashboard.py": ALL,  # names alone: tests/unit/metrics
    "tests/integration/streaming/test_ad_billing.py": ALL,
    "tests/integration/streaming/driver/test_delivery.py": (
        "test_driver_that_dies_doubles_or_loses_what_its_delivery_allows_and_it_is_named[exactly_once-200000]",
        "test_driver_that_dies_doubles_or_loses_what_its_delivery_allows_and_it_is_named[at_least_once-1]",
    ),
    "tests/integration/streaming/test_changelog.py": (
        "test_transaction_that_a_dead_driver_left_open_is_never_seen",
        "test_changelog_that_is_asked_for_later_has_all_panes_of_the_table",
        "test_session_that_became_part_of_another_ends_as_a_record_without_a_value",
    ),
    "tests/integration/streaming/driver/test_in_force.py": (
        "test_a_conf_that_changed_between_epochs_is_named_with_the_epochs",
        "test_isolation_is_that_of_the_client_and_not_of_the_definition[batch]",
    ),
    "tests/integration/streaming/versions/test_fork.py": (
        "test_fork_that_was_killed_before_its_rows_were_copied_is_filled_by_its_driver",
        "test_epoch_that_was_folded_into_later_ones_is_refused",
        "test_sealed_epoch_is_no_place_to_go_on_from",
    ),
    "tests/integration/watch/test_clean_days.py": ALL,  # tests/unit/watch/test_alerts.py: each alert, and near it none
    "tests/integration/streaming/test_measures.py": ALL,  # tests/integration/records/test_measures.py, tests/property
    "tests/integration/streaming/test_joins.py": ALL,  # tests/property/folds/test_joins.py, test_paths_agree.py
    "tests/integration/streaming/test_panes.py": (
        "test_driver_that_dies_at_any_point_neither_loses_nor_doubles_a_pane[Repeat",
        "test_folds_keep_panes_and_what_is_held",
        "test_pipeline_that_gets_a_trigger_shows_what_its_open_windows_hold",
    ),
    "tests/integration/streaming/log/test_rewritten_log.py": ("test_second_topic_of_a_join",),
    "tests/integration/streaming/driver/test_scale.py": ALL,
    "tests/integration/streaming/driver/test_cost.py": (
        "test_a_second_driver_counts_from_its_own_start",
        "test_what_a_driver_says_to_have_written_is_what_its_table_lists",
    ),
    "tests/integration/streaming/driver/test_upkeep.py": ("test_handle_that_is_loaded_anew_goes_on",),
    "tests/integration/streaming/driver/test_transfers.py": ALL,  # `make transfers` is the whole of it
    "tests/property/test_paths_agree.py": (
        "[fixed ",
        "[sliding ",
        "[daily ",
        "[monthly ",
        "[sessions ",
        "[sliding-one-left]",
        "[global-two-left]",
        "[fixed-two-inner]",
        "[monthly-one-inner]",
        "[daily-two-full]",
    ),
}
"""File -> what names of its long tests contain."""

KEPT: Mapping[str, tuple[str, ...]] = {
    "tests/integration/batch/repair/test_repair.py": (
        "test_a_dry_run_says_what_would_change_and_changes_nothing",
        "test_a_published_repair_changes_its_windows_alone_and_keeps_what_was_served",
        "test_a_draft_is_refused_once_its_ground_has_moved[batch]",
        "test_windows_that_cannot_be_repaired_are_refused",
        "test_a_file_of_a_draft_whose_bytes_changed_is_refused_by_name",
    ),
    "tests/integration/reconcile/test_acceptance.py": (
        "test_what_rules_accept_is_no_divergence_and_no_finding",
        "test_what_a_rule_leaves_stays_a_divergence",
        "test_a_rule_that_does_not_hold_accepts_nothing[fields0",
        "test_a_rule_that_does_not_hold_accepts_nothing[fields1",
        "test_a_rule_is_about_the_rows_that_it_names[fields0",
        "test_a_rule_is_about_the_rows_that_it_names[fields5",
        "test_a_difference_that_comes_back_has_its_history",
        "test_a_young_difference_is_pending_and_wakes_nobody",
        "test_a_rule_that_says_too_little_or_nonsense_is_refused[words0",
        "test_a_rule_that_says_too_little_or_nonsense_is_refused[words2",
        "test_a_rule_that_no_one_can_read_fails_lint",
    ),
    "tests/integration/reconcile/test_audit.py": (
        "test_measure_that_depends_on_the_order_is_blamed_with_its_expression",
        "test_topic_without_records_has_nothing_to_replay",
    ),
    "tests/integration/streaming/test_advise.py": (
        "test_what_cannot_be_advised_on_is_refused",
    ),  # a driver for each setting
    "tests/integration/streaming/test_simulate.py": (
        "test_stream_emits_the_panes_of_a_figure[14]",
        "test_stream_gives_the_examples_of_the_documentation[viewing-sessions-None]",
        "test_command_prints_what_the_reference_prints_and_leaves_nothing_behind",
    ),
    "tests/property/panes/test_stream_panes.py": (
        "test_panes_from_the_table_are_the_references_whenever_the_driver_starts_anew",
        "[14]",
    ),
}
"""File -> what names of the tests contain that are not long; all others of it are."""


def is_long(test: str) -> bool:
    """Return whether a test, by its id, is one of the long ones."""
    file, _, name = test.partition("::")
    if file in KEPT:
        return not any(part in name for part in KEPT[file])
    return any(part in name for part in LONG.get(file, ()))


def mark(items: Iterable[pytest.Item]) -> None:
    """Mark the long tests, before pytest deselects those that are not requested."""
    for item in items:
        if is_long(item.nodeid):
            item.add_marker(pytest.mark.long)
