"""Uses the page in a real browser, as a person would. Run by scripts/browser-check.

    check.py URL PICTURES AXE BINARY AWAY [WORD…]

AWAY is the address of a model server that is not running yet; steps start it with BINARY. With words, only the steps
whose name contains one of them run.
"""

import sys
import time
import traceback

import asking_steps as asking
import care_steps as care
import conversation_steps as conversation
import job_steps as job
import library_steps as library
import origin_steps as origin
import whole_steps as whole
import workbench_steps as workbench
from setting import PICTURES, b

STEPS = [
    library.a_first_visit_ingests_the_sample,
    library.the_library_is_sorted_and_filtered_by_tag,
    asking.a_question_of_the_sample_leads_to_its_chunk,
    asking.the_steps_of_a_query_are_shown_as_they_come,
    asking.the_answer_is_never_under_the_header,
    asking.another_strategy_walks_and_ranks_the_best_first,
    asking.a_question_is_replayed_and_compared,
    asking.a_question_without_an_answer_says_what_to_do,
    library.pasted_text_is_kept_word_for_word,
    library.a_search_finds_a_chunk_and_opens_it_in_its_text,
    library.a_dropped_file_is_filed,
    library.a_text_with_a_known_name_is_a_version_or_a_source_of_its_own,
    library.the_helper_dialogue_leads_from_errors_to_a_confirmation,
    library.a_waiting_job_can_be_cancelled,
    asking.the_hierarchy_zooms_by_mouse_and_by_keyboard,
    asking.many_small_categories_are_one_box,
    asking.a_category_is_renamed_and_the_change_undone,
    care.a_merge_is_previewed_applied_and_undone,
    care.a_chunk_is_moved_to_another_leaf_and_back,
    care.a_leaf_is_split_and_the_change_undone_from_the_list,
    care.a_category_is_moved_and_removed,
    care.a_proposal_is_applied,
    library.a_source_can_be_excluded_from_queries,
    library.a_change_that_somebody_else_made_is_not_overwritten,
    library.the_keyboard_keeps_its_place_when_a_part_is_drawn_again,
    library.two_versions_are_compared,
    library.a_source_is_deleted_after_a_confirmation,
    library.many_sources_are_counted_and_sorted,
    library.ten_thousand_sources_are_sorted_without_a_pause,
    job.a_failed_job_says_why_and_is_retried,
    job.a_running_job_is_watched_and_cancelled,
    job.a_model_is_tested_and_spending_is_shown,
    conversation.a_thread_is_written_and_classified,
    conversation.topics_are_corrected_and_stay,
    conversation.the_context_of_a_question_shows_scores_and_what_was_left_out,
    conversation.a_message_and_a_thread_are_deleted,
    conversation.chat_exports_are_imported_by_dropping_them,
    conversation.a_fact_is_replaced_and_restored,
    conversation.a_long_thread_opens_at_its_end_without_a_pause,
    conversation.the_vocabulary_is_edited_and_a_lexicon_imported,
    conversation.a_suggestion_becomes_a_term_of_the_vocabulary,
    conversation.the_chain_of_a_policy_is_compared_with_another_version,
    conversation.redaction_patterns_are_tried,
    workbench.a_prompt_is_composed_and_every_control_counts,
    workbench.the_exact_file_lock_searches_nothing,
    workbench.a_reply_from_elsewhere_becomes_history,
    workbench.an_edited_prompt_is_sent_as_it_is_and_its_reply_exported,
    workbench.a_prompt_over_its_ceiling_cannot_be_sent,
    workbench.all_files_can_be_off_however_many_there_are,
    workbench.what_was_written_is_there_after_a_visit_elsewhere,
    origin.a_page_of_another_origin_plants_nothing,
    whole.another_space_is_another_library,
    whole.a_missing_source_shows_the_problem_of_the_service,
    whole.the_colour_scheme_is_chosen_and_kept,
    whole.everything_is_reachable_by_keyboard,
    whole.every_view_is_readable_at_every_width_in_both_schemes,
    whole.the_page_is_small_and_fast,
    whole.the_api_reference_describes_operations_and_sends_requests,
    whole.no_request_goes_to_another_host,
]

failures = 0
wanted = sys.argv[6:]
steps = [step for step in STEPS if not wanted or any(word in step.__name__ for word in wanted)]
for step in steps:
    name, began = step.__name__.replace("_", " "), time.monotonic()
    try:
        expected = step() or []
        errors = b.console_errors(expected)
        assert not errors, f"errors in the console: {errors}"
        b.note_requests()
        print(f"ok   {name} ({time.monotonic() - began:.1f} s)", flush=True)
    except Exception as error:
        failures += 1
        print(f"FAIL {name}\n{error}" if isinstance(error, AssertionError) and str(error) else f"FAIL {name}\n{traceback.format_exc()}", flush=True)
        b.picture(f"failed-{step.__name__}")
        b.console_errors()
        b.open("")
        b.scheme("light")
        b.size(1280, 900)
b.close()
print(f"{len(steps) - failures} passed, {failures} failed; pictures in {PICTURES}")
sys.exit(1 if failures else 0)
