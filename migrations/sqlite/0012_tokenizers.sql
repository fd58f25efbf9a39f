-- By which tokenizer a passage's tokens were counted; empty for passages from before.
ALTER TABLE chunks ADD COLUMN tokenizer TEXT NOT NULL DEFAULT '';
