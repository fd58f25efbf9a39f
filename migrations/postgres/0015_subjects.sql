-- What a chunk is about, in the words of the model that filed it without a list of categories.
ALTER TABLE chunks ADD COLUMN subject TEXT;
