"""Short texts on many subjects, the same for the same number: what people note about their lives and work. No two are
equal, and no subject is announced by a heading."""

import random

# Each field: things, what happened to them, and a remark.
FIELDS = [
    ("pancakes|lentil soup|sourdough bread|apple pie|fried rice|goulash|pasta sauce|roast chicken|pickled cucumbers|waffles",
     "baked|cooked|seasoned|tasted|froze|reheated", "a pinch of salt|less sugar next time|two hours in the oven|fresh basil|the dough must rest|grandmother's recipe"),
    ("the boiler|the radiator in the hall|the water heater|the heating pump|the chimney|the thermostat|the gas meter",
     "serviced|repaired|bled|replaced|inspected|measured", "pressure below one bar|the plumber came at nine|the invoice is 140 euros|no hot water since Monday|warranty until autumn"),
    ("the cat|the neighbour's dog|the kitten|our rabbit|the parrot|the hamster|the old tomcat",
     "vaccinated|wormed|fed|weighed|groomed|examined", "the vet wants to see it again|it lost half a kilo|new food from the clinic|tablets twice a day|a tick behind the ear"),
    ("the car|the left headlight|the brakes|the winter tyres|the clutch|the windscreen|the engine oil",
     "changed|checked|repaired|balanced|ordered|tested", "the garage charged too much|next inspection in May|42,000 kilometres|a noise when turning|the roadside service helped"),
    ("the flight to Lisbon|the hotel in Vienna|the ferry|the night train|the rental car in Crete|the campsite|the tour of the old town",
     "booked|cancelled|rebooked|paid|reviewed|postponed", "breakfast is included|check-in at three|passport must be renewed|window seat|luggage limited to 20 kg"),
    ("the knee|my lower back|the cough|the blood pressure|the tooth|the allergy|the eye test",
     "treated|examined|measured|x-rayed|discussed|monitored", "the doctor recommends exercises|follow-up in six weeks|better than last month|painkillers if needed|refer to a specialist"),
    ("the tax return|the heating bill|the mortgage|the savings account|the credit card|the pension statement|the car insurance",
     "paid|filed|checked|transferred|disputed|renewed", "deadline at the end of July|the rate rises to 3.9 percent|save the receipt|refund of 212 euros|direct debit from March"),
    ("the tomatoes|the roses|the hedge|the lawn|the compost|the apple tree|the raised bed",
     "watered|pruned|planted|fertilised|mulched|harvested", "aphids on the leaves|after the last frost|rain for three days|seeds from the market|slugs again"),
    ("the cello|the piano sonata|the choir rehearsal|the guitar strings|the violin lesson|the concert programme|the metronome exercise",
     "practised|tuned|rehearsed|recorded|performed|repeated", "bar 32 is too fast|the teacher was pleased|bring the score|concert on the third|intonation in the high register"),
    ("the login form|the database migration|the unit tests|the cache|the release build|the memory leak|the API client",
     "refactored|deployed|debugged|reviewed|reverted|benchmarked", "fails on the second run|merged after review|latency fell by half|null pointer in production|needs a feature flag"),
    ("the budget meeting|the sales forecast|the job interview|the client workshop|the quarterly report|the onboarding|the project plan",
     "prepared|presented|postponed|approved|summarised|discussed", "Anna takes the minutes|decision next week|figures are missing|the customer wants a demo|three action items"),
    ("the history essay|the maths homework|the school trip|the parents' evening|the spelling test|the science fair|the report card",
     "graded|handed in|prepared|practised|signed|discussed", "the teacher praised the drawing|fractions are still difficult|permission slip by Friday|a B minus|study group at the library"),
    ("the novel by Austen|the crime story|the poetry collection|the biography of Curie|the library book|the fantasy trilogy|the audiobook",
     "read|finished|borrowed|returned|recommended|reviewed", "the ending surprised me|too many characters|due on the twelfth|chapter nine is the best|reading group in May"),
    ("the marathon|the swimming lesson|the football match|the gym plan|the bicycle tour|the yoga class|the tennis serve",
     "trained|won|lost|cancelled|improved|recorded", "new personal best|sore calves|coach moved me up|rain in the second half|42 lengths"),
    ("the election|the city council|the new tax law|the referendum|the climate summit|the strike of the drivers|the trade agreement",
     "debated|announced|postponed|passed|rejected|negotiated", "turnout was low|the minister resigned|a majority of two votes|critics call it unfair|talks resume on Tuesday"),
    ("the telescope|the lunar eclipse|the Mars rover|the comet|the space station|the meteor shower|the galaxy survey",
     "observed|photographed|launched|measured|discovered|tracked", "clear sky after midnight|orbit is slightly lower|long exposure|data arrive next month|magnitude 3.2"),
    ("the wedding|the birthday party|the baptism|the family reunion|the farewell dinner|the anniversary|the house-warming",
     "planned|celebrated|moved|catered|photographed|organised", "sixty guests|cake from the bakery|uncle Paul gives a speech|invitations go out in June|dress code is casual"),
    ("the washing machine|the dishwasher|the fridge|the vacuum cleaner|the coffee machine|the oven|the dryer",
     "descaled|repaired|ordered|returned|cleaned|installed", "error code E18|spare part costs 30 euros|delivery on Thursday|the filter was blocked|energy class B"),
    ("the kitchen wall|the parquet floor|the bathroom tiles|the roof|the balcony door|the garage|the staircase",
     "painted|sanded|insulated|sealed|measured|renovated", "two coats of white|the carpenter is ill|moisture behind the panel|14 square metres|quote from three firms"),
    ("the rental contract|the neighbour's noise|the deposit|the parking permit|the moving van|the landlord's letter|the keys",
     "signed|returned|disputed|extended|reported|scanned", "three months' notice|the agency does not answer|ground floor flat|handover protocol|rent rises by two percent"),
    ("the chess opening|the board game|the crossword|the puzzle of the bridge|the card game|the video game|the quiz night",
     "played|won|analysed|lost|solved|learned", "a pawn too early|the rules are unclear|level twelve|draw by repetition|four players"),
    ("the enzyme|the clinical trial|the protein structure|the gene sequence|the cell culture|the antibody|the vaccine study",
     "analysed|published|repeated|sequenced|reviewed|measured", "p value below 0.05|the control group was small|peer review took a year|contaminated samples|results differ by batch"),
    ("the landscape photo|the camera lens|the portrait session|the watercolour|the exhibition|the oil painting|the sculpture",
     "edited|printed|exhibited|framed|sold|restored", "light from the left|too much contrast|the gallery takes 40 percent|canvas 60 by 80|overexposed sky"),
    ("the shipment|the warehouse|the purchase order|the supplier|the customs form|the inventory|the packaging",
     "delayed|counted|confirmed|inspected|returned|invoiced", "pallet 17 is missing|port of Hamburg|lead time of six weeks|wrong label|minimum quantity 500"),
    ("the storm|the heat wave|the snowfall|the flood warning|the forecast|the drought|the hail",
     "forecast|recorded|measured|reported|survived|announced", "gusts of 110 km/h|36 degrees in the shade|roads are closed|no rain for weeks|the river peaked at four metres"),
    ("the Spanish course|the French vocabulary|the Japanese grammar|the translation|the pronunciation|the language exam|the dictionary",
     "practised|corrected|learned|repeated|passed|translated", "irregular verbs|level B2|the subjunctive again|ten new words a day|tandem partner on Wednesday"),
    ("the bee colony|the chickens|the tractor|the wheat field|the milk yield|the sheep|the irrigation",
     "inspected|sold|harvested|treated|repaired|counted", "mites in the brood|eight tonnes per hectare|the queen is marked|subsidy application|diesel is expensive"),
    ("the router|the laptop|the phone screen|the backup disk|the printer|the smart watch|the webcam",
     "replaced|reset|updated|configured|returned|repaired", "battery lasts two hours|firmware 4.2|out of warranty|driver is missing|wifi drops in the attic"),
    ("the will|the court hearing|the patent|the copyright claim|the lawyer's fee|the divorce settlement|the contract dispute",
     "appealed|filed|settled|postponed|drafted|rejected", "hearing in room 204|statute of limitations|costs are shared|witness statement|notarised copy"),
    ("the stock portfolio|the bond fund|the exchange rate|the dividend|the startup investment|the gold price|the index fund",
     "sold|bought|rebalanced|analysed|reported|hedged", "down four percent|fees are too high|earnings call on Thursday|inflation data|quarterly dividend"),
]
OPENINGS = [
    "Today {thing} was {done}: {remark}.", "We {done} {thing}. {Remark}.", "{Thing}: {done} on {day}, {remark}.",
    "Note about {thing}: it was {done}, {remark}.", "{Remark} when we {done} {thing} on {day}.",
    "Remember that {thing} must be {done} by {day}; {remark}.",
]
MONTHS = "January February March April May June July August September October November December".split()


def text(number):
    """The text of a number; fields are mixed as in a life."""
    rng = random.Random(number)
    field = rng.choice(FIELDS)
    things, verbs, remarks = (part.split("|") for part in field)

    def sentence():
        thing, remark = rng.choice(things), rng.choice(remarks)
        day = f"{rng.randrange(1, 29)} {rng.choice(MONTHS)}"
        return rng.choice(OPENINGS).format(
            thing=thing, Thing=thing[0].upper() + thing[1:], done=rng.choice(verbs), remark=remark,
            Remark=remark[0].upper() + remark[1:], day=day,
        )

    sentences = [sentence() for _ in range(rng.randrange(2, 5))]
    return " ".join(sentences) + f" ({number})"
