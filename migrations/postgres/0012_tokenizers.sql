-- By which tokenizer a passage's tokens were counted; empty for passages from before.
ALTER TABLE chunks ADD COLUMN tokenizer VARCHAR(32) NOT NULL DEFAULT '';
