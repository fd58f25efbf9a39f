"""Jobs and status: failing, retrying, watching, cancelling, testing a model."""

from browser import api
from setting import URL, b, model_server, sound


def a_failed_job_says_why_and_is_retried():
    path = {"text": "The well is deep.", "path": "/notes/well.txt", "options": {"model": "away:some-model"}}
    job = api(URL, "POST", "/v1/ingestions", {**path, "wait": True})
    assert job["state"] == "failed", job
    b.open("#/jobs?state=failed")
    row = f"tr[data-job='{job['id']}'] "
    b.until("what to do", lambda: job["error"]["remediation"] in b.one(row + ".job-what").text)
    b.picture("job-failed")
    sound()
    with model_server():
        b.click(row + "button", "Retry")
        b.until("it is done", lambda: "Done" in b.one(row + ".badge").text)
        b.click(row + "a.name")
        b.until("its title", lambda: b.one("h1").text == "well.txt")
        b.until("chunks by category", lambda: "1 chunk" in b.one("section[aria-label='Chunks by category']").text)
        assert [badge.text for badge in b.all("main .badge")].count("Done") == 1, "the state is shown once"
        b.click(".all-calls summary")
        b.one("section[aria-label='Batches']")
        b.one("section[aria-label='Calls']")
        b.picture("job")
        sound()


def a_running_job_is_watched_and_cancelled():
    text = "\n\n".join(f"Paragraph {n}. " + "The tide comes in twice a day and leaves shells on the sand. " * 30 for n in range(30))
    with model_server("--latency-ms", "300"):
        b.open("#/library")
        job = api(URL, "POST", "/v1/ingestions", {"text": text, "path": "/notes/tide.txt", "options": {"model": "away:some-model"}})
        b.open("#/library")
        card = f".job-card[data-job='{job['id']}'] "
        b.until("its phase", lambda: "level 1 of 3" in b.one(card).text)
        b.until("its numbers", lambda: "calls" in b.one(card + ".job-numbers").text)
        bar = b.one(card + "[role='progressbar']")
        b.until("progress", lambda: int(bar.get_attribute("aria-valuenow")) > 15)
        b.picture("job-running")
        b.click(card + "button", "Cancel")
        b.until("it is cancelled", lambda: "Cancelled" in b.one(card + ".badge").text)
    assert not [source for source in api(URL, "GET", "/v1/sources?limit=500")["items"] if source["filename"] == "tide.txt"]


def a_model_is_tested_and_spending_is_shown():
    b.open("#/status")
    b.sees("Ready")
    b.one(".chart rect")
    b.click("button[aria-label='Test local']")
    b.sees("Answered in")
    assert not b.all("button[aria-label='Test openai']"), "what is not configured cannot be tested"
    b.click(".unconfigured summary")
    b.sees("OPENAI_API_KEY")
    b.until("the spaces", lambda: "default" in b.one("section[aria-label='Spaces']").text)
    sound()
