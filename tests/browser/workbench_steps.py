"""The workbench: every control and its effect in the request, the prompt that can be edited, its cost, replies."""

import json

from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from browser import api
from setting import URL, b, other_service, sound, source_named

# Keeps the body of every request to the workbench's routes, so that a step can see what a control changed.
SPY = """if (!window.asked) {
  window.asked = [];
  const real = window.fetch;
  window.fetch = (address, options) => {
    if (String(address).match(/v1.prompts|v1.exports/)) window.asked.push([new URL(address).pathname, options.body]);
    return real(address, options);
  };
}"""


def asked(path):
    bodies = [json.loads(body) for name, body in b.js("return window.asked") if name == path]
    assert bodies, f"nothing was sent to {path}"
    return bodies[-1]


def compose():
    before = len(b.js("return window.asked"))
    b.click("button.primary", "Compose")
    b.until("the request", lambda: len(b.js("return window.asked")) > before)
    b.until("the prompt", lambda: b.all(".super-prompt .block") and not b.one("button.primary", "Compose").get_attribute("disabled"))
    return asked("/v1/prompts")


def a_prompt_is_composed_and_every_control_counts():
    b.open("#/workbench")
    b.one("textarea[name='task']")
    b.js(SPY)
    b.write("textarea[name='hard_rules']", "Answer in one sentence.")
    b.write("textarea[name='project_memory']", "The trip is in May.")
    b.click("button", "Save the workspace")
    b.sees("The workspace is saved")
    b.write("textarea[name='task']", "Plan a morning with the ferry to Sør.")
    coffee, town = source_named("coffee.md")["id"], source_named("harbour-town.md")["id"]
    b.click(f"[data-on='{coffee}']")
    Select(b.one(f"[data-inject='{source_named('bicycle.md')['id']}']")).select_by_value("pack")
    b.click("input[name='agent-audit']")
    b.write("input[name='k']", "2")
    b.write("input[name='episodic_tokens']", "300")
    b.click("input[name='include_recent_history']")
    body = compose()
    assert body["off_source_ids"] == [coffee] and body["files"][0]["mode"] == "pack", body
    assert body["agents"]["audit"] is False and body["agents"]["nli"] is True
    assert (body["k"], body["episodic_tokens"]) == (2, 300), body
    names = [block.get_attribute("data-block") for block in b.all(".block-text")]
    assert names[:3] == ["hard_rules", "project_memory", "files"] and names[-1] == "task", names
    assert "Answer in one sentence." in b.all(".block-text")[0].text
    shown = b.one(".transparency").text
    assert "kept:" in shown or "dropped:" in shown, shown
    assert "coffee.md" not in shown, "a file that is off is not searched"
    assert town in b.js("return [...document.querySelectorAll('.candidate a')].map((link) => link.href).join()"), shown
    b.picture("workbench-composed")
    sound()
    b.write("textarea[name='hard_rules']", "Answer in two sentences.")
    b.sees("Something has changed since this prompt was composed")
    compose()
    assert "Answer in two sentences." in b.all(".block-text")[0].text, "what was typed counts without saving"
    b.scheme("dark")
    sound()
    b.picture("workbench-dark")
    b.scheme("light")


def the_exact_file_lock_searches_nothing():
    b.click("input[name='lock']")
    assert compose()["lock"] is True
    b.sees("Nothing was searched")
    assert "s_ctx" not in [block.get_attribute("data-block") for block in b.all(".block-text")]
    b.click("input[name='lock']")


def a_reply_from_elsewhere_becomes_history():
    b.write("textarea[aria-label='Reply from another program']", "Take the 9:15 ferry.")
    b.click("button", "Send to History")
    b.click("section[aria-label='External reply'] a", "the conversation")
    b.until("the message", lambda: "Take the 9:15 ferry." in b.one(".message").text and "external" in b.one(".message").text)
    thread = b.driver.current_url.rsplit("/", 1)[-1]
    memory = api(URL, "GET", f"/v1/threads/{thread}/messages")["items"][0]
    assert memory["source"] == "external" and memory["content_hash"], memory
    b.open("#/workbench")
    b.one("textarea[name='task']")
    assert not b.all(".candidate"), "what was kept and dropped is gone after a reload"


def an_edited_prompt_is_sent_as_it_is_and_its_reply_exported():
    b.open("#/workbench")
    b.one("textarea[name='task']")
    b.js(SPY)
    b.write("textarea[name='task']", "When does the ferry to Sør leave?")
    compose()
    block = b.all(".block-text")[-1]
    b.js("arguments[0].focus(); getSelection().selectAllChildren(arguments[0]); getSelection().collapseToEnd()", block)
    block.send_keys(" Be brief.", Keys.ENTER, "Use two", Keys.ENTER, Keys.ENTER, "short lines.")
    b.until("the new estimate", lambda: any(name == "/v1/prompts/estimate" and "short lines." in body for name, body in b.js("return window.asked")))
    assert "Be brief." in asked("/v1/prompts/estimate")["prompt"] and "token" in b.one(".cost").text
    b.click("button.primary", "Send")
    b.until("the reply", lambda: len(b.one(".reply .answer-text").text) > 3)
    assert asked("/v1/prompts/send")["prompt"] == asked("/v1/prompts/estimate")["prompt"]
    assert "Sør leave? Be brief.\nUse two\n\nshort lines." in asked("/v1/prompts/send")["prompt"], "lines as they are seen"
    b.js("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    b.click(".super-prompt button", "Copy")
    b.until("the copy", lambda: b.js("return window.copied") == asked("/v1/prompts/send")["prompt"])
    b.click("button", "Export as Markdown")
    b.until("the export", lambda: any(name == "/v1/exports" for name, _ in b.js("return window.asked")))
    assert asked("/v1/exports")["answer"].strip() == b.one(".reply .answer-text").text.strip()
    b.picture("workbench-reply")
    sound()
    assert "F1:" not in b.one(".reply .answer-text").text
    links = b.js("return [...document.querySelectorAll('.candidate a, .reply a.cite')].map((link) => link.hash)")
    assert links, "citations"
    prompt = b.driver.current_url
    for link in links[:6]:
        b.open(link)
        number = link.rsplit("chunk=", 1)[1]
        b.until(f"the chunk {number}", lambda: b.one(".chunk.found").get_attribute("data-chunk") == number)
    b.open(prompt.split("/", 3)[3])
    b.js(SPY)
    b.write("textarea[name='task']", "When does the ferry to Sør leave?")
    compose()


def a_prompt_over_its_ceiling_cannot_be_sent():
    tokens = b.js("return [...document.querySelectorAll('.block-text')].reduce((sum, block) => sum + block.textContent.length, 0)")
    b.click("summary", "Strictness and ceilings")
    b.write("input[name='tokens']", str(int(tokens / 2)))
    compose()
    block = b.all(".block-text")[-1]
    b.js("arguments[0].textContent += ' and more'.repeat(3000); arguments[0].dispatchEvent(new InputEvent('input', {bubbles: true}))", block)
    b.until("the reason", lambda: "Over the ceiling" in b.one(".cost").text)
    assert b.one("button.primary", "Send").get_attribute("disabled"), "Send is off"
    sound()


def all_files_can_be_off_however_many_there_are():
    with other_service() as (url, _):
        for name in ["ferry", "buoys"]:
            api(url, "POST", "/v1/ingestions", {"text": f"The ferry to Sør leaves at nine; see the {name}.", "path": f"/{name}.md", "wait": True})
        for n in range(508):
            api(url, "POST", "/v1/sources", {"path": f"/registered/{n}.md"})
        b.open("#/workbench")
        b.one("textarea[name='task']")
        b.js(SPY)
        b.sees("510 files, 0 off")
        assert len(b.all(".file-list li")) == 50, "some at a time"
        b.click("button", "Turn all off")
        b.sees("510 files, 510 off")
        b.write("input[aria-label='Find a file']", "ferry.md")
        b.until("the file", lambda: len(b.all(".file-list li")) == 1)
        b.click("button", "Turn all on")
        b.sees("510 files, 509 off")
        b.write("textarea[name='task']", "When does the ferry to Sør leave?")
        assert len(compose()["off_source_ids"]) == 509
        found = b.js("return [...document.querySelectorAll('.candidate')].map((item) => item.textContent)")
        assert found and all("ferry.md" in item for item in found), found
        b.js("location.hash = '#/status'")
        b.one(".view-status h1")
        b.js("history.back()")
        b.sees("510 files, 509 off")
        b.picture("workbench-many-files")
        sound()


def what_was_written_is_there_after_a_visit_elsewhere():
    b.open("#/workbench")
    b.write("textarea[name='task']", "When does the ferry to Sør leave?")
    b.click("button.primary", "Compose")
    b.one(".super-prompt .block-text")
    b.js("location.hash = '#/status'")
    b.one(".view-status h1")
    b.js("history.back()")
    assert "ferry" in b.one("textarea[name='task']").get_attribute("value")
    b.one(".super-prompt .block-text")
