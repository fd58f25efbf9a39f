"""Conversations, vocabulary and policy: a thread from its first message to its context, an import, facts, settings."""

import json
import time

from selenium.webdriver.support.ui import Select

from browser import api
from setting import AWAY, URL, b, model_server, other_service, process, sound

WHATSAPP = """31/01/2026, 18:05 - Ana: The boat needs a new rudder.
31/01/2026, 18:07 - Ben: I can order one.
With bolts?
31/01/2026, 18:09 - Ana: Yes, with bolts.
"""

CHATGPT = [{"title": "Garden plan", "current_node": "c", "mapping": {
    "a": {"parent": None, "message": None},
    "b": {"parent": "a", "message": {"author": {"role": "user"}, "create_time": 1767225600.0, "content": {"parts": ["When do I sow beans?"]}}},
    "c": {"parent": "b", "message": {"author": {"role": "assistant"}, "create_time": 1767225660.0, "content": {"parts": ["In May, after the frost."]}}},
}}]


def drop(name, text):
    b.one(".import-drop")
    b.js("""const data = new DataTransfer();
        data.items.add(new File([arguments[1]], arguments[0], {type: 'text/plain'}));
        const zone = document.querySelector('.import-drop');
        for (const kind of ['dragenter', 'dragover', 'drop'])
            zone.dispatchEvent(new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true}));""", name, text)


def a_thread_is_written_and_classified():
    b.open("#/conversations")
    b.sees("There are no threads yet")
    b.picture("conversations-empty")
    sound()
    b.click("button.primary", "New thread")
    b.write("dialog input", "Moving house")
    b.all("dialog input")[1].send_keys("ana")
    b.click("dialog button.primary", "Start")
    b.until("the thread", lambda: b.one("h1").text == "Moving house")
    for words in ["I prefer trains to planes because of the noise.", "Noted: trains it is.", "My budget for the move is 900 euros."]:
        b.write(".composer textarea", words)
        b.click(".composer button", "Add message")
        b.until("the message", lambda: words in b.one(".messages").text)
    assert [item.get_attribute("class") for item in b.all(".message")] == ["message by-user", "message by-assistant", "message by-user"]
    b.until("all are classified", lambda: len(b.all(".message[data-state='done']")) == 3, 40)
    assert b.all(".message .chips-line .tag"), "what the model said"
    b.sees("3 messages in 2 turns")
    b.click(".message button", "☆ Important")
    b.until("it is marked", lambda: b.one(".message [aria-pressed='true']").text == "★ Important")
    b.click(".message button", "Correct")
    b.write("dialog input", "travel, noise")
    b.click("dialog button.primary", "Save")
    b.until("its tags", lambda: "#noise" in b.one(".message").text)
    assert not b.all(".message .badge.you"), "tags are no correction"
    b.picture("thread-light")
    sound()


def topics_are_corrected_and_stay():
    first = lambda: b.all(".message")[0]
    topics = lambda: [tag.text for tag in first().find_elements("css selector", ".tag.topic")]
    b.click(".message button", "Correct")
    b.one("dialog select[name='topics']")
    for _ in b.all("dialog .chip"):
        b.click("dialog .chip button")
    b.sees("No topic")
    for name in ["pricing", "shipping", "payment"]:
        Select(b.one("dialog select[name='topics']")).select_by_value(name)
        assert f"Remove the topic {name}" not in b.one("dialog").get_attribute("innerHTML"), "choosing adds nothing yet"
        b.click("dialog button", "Add")
    b.until("no fourth", lambda: not b.one("dialog select[name='topics']").is_enabled())
    b.click("dialog .chip button[aria-label='Remove the topic payment']")
    Select(b.all("dialog select")[1]).select_by_value("feedback")
    b.picture("correct")
    sound()
    b.scheme("dark")
    sound()
    b.scheme("light")
    b.click("dialog button.primary", "Save")
    b.until("its topics", lambda: topics() == ["pricing", "shipping"])
    b.until("what is corrected", lambda: b.one(".message .badge.you").text == "corrected: topics, category")
    assert b.focused().get_attribute("data-act") == "edit", "the focus comes back"
    b.click(".message button", "Classify again")
    b.until("it waits", lambda: first().get_attribute("data-state") == "pending")
    b.until("it is classified", lambda: first().get_attribute("data-state") == "done")
    assert topics() == ["pricing", "shipping"], topics()
    b.click(".message button", "Correct")
    b.click("dialog button", "Remove the corrections")
    b.until("no correction", lambda: not b.all(".message .badge.you"))
    # The classification that follows takes a moment.
    b.until("as the model says", lambda: topics() != ["pricing", "shipping"] and first().get_attribute("data-state") == "done")


def the_context_of_a_question_shows_scores_and_what_was_left_out():
    b.write(".context-panel textarea", "How do I like to travel, and what is my budget?")
    b.click(".context-panel button", "Assemble")
    b.until("the text", lambda: "trains" in b.one(".composed").text)
    b.until("what is said", lambda: "The context has" in b.one("#said").get_attribute("textContent"))
    assert b.focused().text == "Assemble", "the focus stays"
    b.one("[data-memory] .parts-bar span")
    words = b.one(".scored .parts-words").text
    assert "search" in words and "shares with the question" in words and words.endswith(f"= {b.one('.scored-head strong').text}"), words
    Select(b.one("select[aria-label='How memories are found']")).select_by_value("staged")
    b.click(".context-panel button", "Assemble")
    b.until("the scores of the stages", lambda: "search" not in b.one(".scored .parts-words").text)
    Select(b.one("select[aria-label='How memories are found']")).select_by_value("search")
    tokens = b.one("input[aria-label='Maximum tokens']")
    tokens.clear()
    tokens.send_keys("20")
    b.click(".context-panel button", "Assemble")
    b.until("what was left out", lambda: b.one(".left-out li .reason").text)
    b.click(".side summary", "Window")
    b.until("the window", lambda: "Turn 2" in b.one(".window-out").text)
    b.picture("thread-context")
    sound()
    b.scheme("dark")
    b.picture("thread-dark")
    sound()
    b.scheme("light")


def a_message_and_a_thread_are_deleted():
    b.click(".message button.danger", "Delete")
    b.click("dialog button.danger", "Delete permanently")
    b.until("two are left", lambda: len(b.all(".message")) == 2)
    b.until("the next message has the focus", lambda: b.focused() == b.all(".message")[0])
    b.sees("2 messages")
    b.click("button", "Rename")
    b.write("dialog input", "Moving to Ghent")
    b.click("dialog button.primary", "Save")
    b.until("the title", lambda: b.one("h1").text == "Moving to Ghent")
    b.click(".head button.danger", "Delete")
    b.click("dialog button.danger", "Delete permanently")
    b.sees("There are no threads yet")


def chat_exports_are_imported_by_dropping_them():
    b.open("#/conversations")
    drop("Boat.txt", WHATSAPP)
    b.sees("1 conversation, 3 messages")
    b.one(".import-offer input").send_keys("ana")
    Select(b.one(".import-offer select")).select_by_value("Ana")
    b.picture("import")
    sound()
    b.click(".import-offer button.primary", "Import")
    b.click("table.threads a", "Boat")
    b.until("its messages", lambda: len(b.all(".message")) == 3)
    assert len(b.all(".message.by-user")) == 2 and "With bolts?" in b.all(".message")[1].text
    assert [item.text for item in b.all(".message-head strong")] == ["Ana", "Ben", "Ana"], "everybody keeps their name"
    b.open("#/conversations")
    drop("conversations.json", json.dumps(CHATGPT))
    b.click(".import-offer button.primary", "Import")
    b.one("table.threads a", "Garden plan")
    claude = [{"name": "Names for a cat", "chat_messages": [{"sender": "human", "text": "A name for a cat?", "created_at": "2026-01-01T10:00:00Z"}, {"sender": "assistant", "text": "Miso.", "created_at": "2026-01-01T10:00:05Z"}]}]
    drop("claude.json", json.dumps(claude))
    b.click(".import-offer button.primary", "Import")
    b.one("table.threads a", "Names for a cat")
    drop("lines.jsonl", "\n".join(json.dumps({"role": role, "content": f"Line {n}"}) for n, role in enumerate(["user", "assistant"])))
    b.click(".import-offer button.primary", "Import")
    b.one("table.threads a", "lines")
    drop("nothing.txt", "no chat at all")
    b.sees("contains no messages that memoir understands")
    b.picture("conversations")
    b.write("input[aria-label='Only this user']", "ana")
    b.until("only Ana's", lambda: len(b.all("table.threads tbody tr")) == 1)


def a_fact_is_replaced_and_restored():
    b.open("#/conversations?show=facts&user=ana")
    b.click("button.primary", "New fact")
    b.write("dialog textarea", "Ana lives in Bonn.")
    b.click("dialog button.primary", "Add")
    b.click(".fact-item button", "Replace")
    b.write("dialog textarea", "Ana lives in Ghent.")
    b.click("dialog button.primary", "Replace")
    b.until("the old one is struck out", lambda: "Ana lives in Bonn." in b.one(".fact-item.gone").text)
    b.sees("Replaces: Ana lives in Bonn.")
    b.click(".fact-item:not(.gone) .switch")
    b.until("it is important", lambda: "important" in b.one(".fact-item:not(.gone) .chips-line").text)
    b.picture("facts")
    sound()
    b.click(".fact-item.gone button", "Restore")
    b.until("it counts again", lambda: not b.all(".fact-item.gone"))


def a_long_thread_opens_at_its_end_without_a_pause():
    thread = api(URL, "POST", "/v1/threads", {"title": "A long one", "user_id": "long"})
    for start in range(0, 3000, 1000):
        messages = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"Message number {n}."} for n in range(start, start + 1000)]
        api(URL, "POST", f"/v1/threads/{thread['id']}/messages", {"messages": messages, "enrich": False})
    b.open("#/conversations")
    b.one("table.threads")
    b.js("""window.long = 0; new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) window.long = Math.max(window.long, entry.duration);
    }).observe({type: 'longtask', buffered: false})""")
    b.click("table.threads a", "A long one")
    b.until("the newest", lambda: "Message number 2999." in b.one(".messages").text)
    assert len(b.all(".message")) == 50
    b.until("the composer is in sight", lambda: b.js("const box = document.querySelector('.composer').getBoundingClientRect(); return box.top > 0 && box.bottom <= innerHeight"))
    b.click("button", "Show earlier messages")
    b.until("more of them", lambda: len(b.all(".message")) == 100)
    b.until("the first of them has the focus", lambda: b.focused() == b.all(".message")[0])
    time.sleep(0.3)
    print(f"   longest task {b.js('return window.long'):.0f} ms")


def the_vocabulary_is_edited_and_a_lexicon_imported():
    b.open("#/vocabulary")
    b.until("the lists", lambda: len(b.all(".vocabulary-lists .panel")) == 4)
    b.picture("vocabulary")
    sound()
    b.click("button", "Edit the lists")
    topics = b.one("dialog textarea[name='topics']")
    topics.send_keys("\nsailing")
    b.write("dialog input", "spring")
    sound()
    b.click("dialog button.primary", "Store as a new version")
    b.until("the term", lambda: "sailing" in b.one("section[aria-label='Topics']").text)
    b.sees("Version spring")
    b.write("textarea.lexicon", "k8s Kubernetes")
    b.click("section[aria-label='Lexicon'] button", "Save")
    b.sees("Line 1 is not a term and an alias")
    b.write("textarea.lexicon", "k8s, Kubernetes\ncrypto; cryptography")
    b.click("section[aria-label='Lexicon'] button", "Save")
    b.sees("2 entries stored")
    assert api(URL, "GET", "/v1/lexicon")["entries"][0] == {"term": "k8s", "alias": "Kubernetes"}


def a_suggestion_becomes_a_term_of_the_vocabulary():
    answer = {"topics": ["general_inquiry"], "category": "inquiry", "message_type": "statement", "entities": [], "importance": 0.5,
              "confidence": "low", "suggested_topic": "warranty", "suggested_category": None}
    texts = [f"The guarantee of lamp {n} is over." for n in range(6)]
    # Jobs run in a process of their own, so that the step decides when the backfill begins.
    with model_server(), other_service(MEMOIR__LLM__MODELS__ENRICH="away:some-model", MEMOIR__JOBS__WORKERS="0") as (url, settings):
        api(AWAY.removesuffix("/v1"), "POST", "/_script", {"rule": {"kind": "by_stage", "answers": {"classify_message": answer}}})
        working = {**settings, "MEMOIR__JOBS__WORKERS": "2"}
        with process(working, "worker"):
            threads = [api(url, "POST", "/v1/threads", {"title": text})["id"] for text in texts]
            for thread, text in zip(threads, texts):
                api(url, "POST", f"/v1/threads/{thread}/messages", {"content": text})
            states = lambda: [item["enrichment_state"] for item in api(url, "GET", "/v1/memories?type=message")["items"]]
            b.until("all are classified", lambda: states() == ["done"] * 6)
        b.open("#/vocabulary")
        place = "section[aria-label='Suggestions'] "
        b.until("the suggestion", lambda: "warranty" in b.one(place + ".suggestion").text and "6 times" in b.one(place + ".suggestion").text)
        assert [item.text.strip("“”\"") for item in b.all(place + ".examples li")] == texts[:3]
        assert "Version 2024-01-15" in b.one(".lead").text, b.one(".lead").text
        b.picture("suggestions")
        sound()
        b.click(place + "button", "Approve")
        b.until("the progress", lambda: "Added to 0 of 6 messages so far" in b.one(place + "[role='status']").text)
        b.until("the new version", lambda: "2024-01-15" not in b.one(".lead").text)
        b.picture("backfill")
        sound()
        with process(working, "worker"):
            b.until("it is over", lambda: "Added to 6 messages." in b.one(place + "[role='status']").text)
        assert b.all("section[aria-label='Topics'] .tag")[-1].text == "warranty"
        version = b.one(".lead").text.split("Version ")[1].rstrip(".")
        assert api(url, "GET", "/v1/vocabulary")["version"] == version
        b.open(f"#/conversations/{threads[0]}")
        b.until("the term", lambda: "warranty" in [tag.text for tag in b.all(".tag.topic")])


def the_chain_of_a_policy_is_compared_with_another_version():
    b.open("#/policy")
    b.one(".policy-question input")
    question, user = b.all(".policy-question input")[:2]
    user.send_keys("ana")
    question.send_keys("What does the boat need, and where does Ana live?")
    b.until("her threads", lambda: "Boat" in b.all(".policy-question select")[0].text)
    b.click(".policy-question button", "Show the steps")
    b.one(".chain-box")
    tried = b.one("section[aria-label='Try redaction'] textarea")
    tried.clear()
    tried.send_keys("A text to try.")
    b.write("input[name='topK']", "1")
    b.click("section[aria-label='Settings'] button.primary", "Store as a new version")
    b.until("the new version", lambda: "Version 2 is in use" in b.one(".lead").text)
    assert b.one("input[name='topK']").get_attribute("value") == "1" and len(b.all(".chain-box")) == 1
    assert question.get_attribute("value").startswith("What does the boat need") and tried.get_attribute("value") == "A text to try."
    Select(b.all(".policy-question select")[2]).select_by_index(2)
    b.click(".policy-question button", "Show the steps")
    b.until("two chains", lambda: len(b.all(".chain-box")) == 2)
    first, second = b.all(".chain-box")
    assert first.find_element("css selector", ".payload .chain-count").text == "1"
    assert int(second.find_element("css selector", ".payload .chain-count").text) > 1
    assert first.find_elements("css selector", ".effects .dropped"), "what a step dropped"
    differs = b.one("section[aria-label='What differs']").text
    assert "Memories" in differs and "Only with Built-in defaults" in differs and "Only with Version 2" not in differs, differs
    b.picture("policy")
    sound()
    b.scheme("dark")
    sound()
    b.picture("policy-dark")
    b.scheme("light")
    Select(b.one("section[aria-label='Settings'] select")).select_by_visible_text("Built-in defaults")
    before = b.one("input[name='topK']").get_attribute("value")
    assert before != "1", "the form shows the chosen version"
    b.click("section[aria-label='Settings'] button.primary", "Store as a new version")
    b.until("back to the old settings", lambda: "Version 3 is in use" in b.one(".lead").text)


def redaction_patterns_are_tried():
    b.open("#/policy")
    b.click("section[aria-label='Settings'] input[name='enableRedaction']")
    b.click("section[aria-label='Settings'] button[type='submit']")
    b.sees("No pattern is chosen, so nothing would be redacted")
    place = "section[aria-label='Try redaction'] "
    b.write(place + "textarea[name='customRedactionPatterns']", "EMP-\\d{6}")
    b.click(place + "button", "Try")
    b.until("the badge is gone", lambda: "EMP-004711" not in b.one(".redacted-text").text and "Call me" in b.one(".redacted-text").text)
    assert "your pattern 1" in b.one(".redacted").text, b.one(".redacted").text
    b.write(place + "textarea[name='customRedactionPatterns']", "EMP-(")
    b.click(place + "button", "Try")
    b.one(place + ".problem, " + place + ".field-error:not(:empty)")
    return [422]
