import { expect } from 'chai';
import * as fc from 'fast-check';
import {
  grepPattern,
  unitLog,
  JournalSurvey,
  JournalLines,
  shortenValues,
} from '../../../../../src/agent/capabilities/event-logs/journal-format.ts';
import { recordTimes, timedRecordId } from '../../../../../src/agent/capabilities/event-logs/log-reader.ts';

/** Characters that mean something to a format, and others. The whole of Unicode takes seconds to set up. */
const odd = fc.constantFrom(...Array.from('<>&\'"ä😀\n\ta]=;\\{}kKiİ\u212a \u0001'));

describe('agent: what journalctl prints', () => {
  it('stays JSON when its long values are cut, wherever the text ends', () => {
    const value = fc.oneof(
      fc.string({ unit: odd, maxLength: 60 }),
      fc.array(fc.integer({ min: 0, max: 255 }), { maxLength: 60 }),
      fc.array(fc.string({ maxLength: 40 }), { maxLength: 3 }),
      fc.constant(null),
    );
    fc.assert(
      fc.property(fc.dictionary(fc.string({ maxLength: 5 }), value), fc.nat(), (record, at) => {
        const json = JSON.stringify(record);
        const split = at % (json.length + 1);
        const cut = shortenValues(shortenValues(json.slice(0, split), 10) + json.slice(split), 10);
        const parsed = JSON.parse(cut) as Record<string, unknown>;
        expect(Object.keys(parsed)).to.deep.equal(Object.keys(JSON.parse(json) as object));
        for (const [key, after] of Object.entries(parsed)) {
          const before = record[key];
          if (typeof before === 'string') expect(before.startsWith(String(after).slice(0, 1))).to.equal(true);
        }
      }),
      { numRuns: 500 },
    );
  });

  it('is split into its lines, of which only those beyond all bounds are left out and counted', () => {
    const lines = new JournalLines(1_500_000);
    const long = JSON.stringify({ MESSAGE: 'x'.repeat(2_000_000), last: 1 });
    const found: string[] = [];
    const text = `first\n${long}\nsecond`;
    for (let at = 0; at < text.length; at += 65_536) found.push(...lines.add(text.slice(at, at + 65_536)));
    found.push(...lines.end());
    expect(found).to.have.length(3);
    const { MESSAGE, last } = JSON.parse(found[1] ?? '') as { MESSAGE: string; last: number };
    expect([MESSAGE.length, last]).to.deep.equal([65_536, 1]);
    // Not one long value but very many.
    const many = `[${'"x",'.repeat(800_000)}`;
    expect([...lines.add(many), ...lines.add('"x"]\nafter\n')]).to.deep.equal(['after']);
    expect(lines.lost).to.equal(1);
  });

  it('is searched with a pattern that finds at least the messages with the text', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: odd, minLength: 1, maxLength: 12 }),
        fc.constantFrom(
          (text: string) => text,
          (text: string) => text.toUpperCase(),
          (text: string) => `a ${text} \u212a`,
        ),
        (text, change) => {
          const message = change(text);
          fc.pre(message.toLowerCase().includes(text.toLowerCase()) && !message.includes('\ud800'));
          // As journalctl compares: bytes, with upper and lower case of ASCII only.
          const pattern = new RegExp(grepPattern(text).replaceAll('(?s:.)', '[^]'), 'i');
          expect(pattern.test(Buffer.from(message).toString('latin1'))).to.equal(true);
        },
      ),
    );
    expect(grepPattern('a.b*[ä')).to.equal('a\\x2eb\\x2a\\x5b(?s:.){1,12}');
  });

  it('is counted for all logs at once', () => {
    const survey = new JournalSurvey();
    const add = (at: number, change: object) =>
      survey.add(JSON.stringify({ __REALTIME_TIMESTAMP: String(at * 1000), _BOOT_ID: 'b', ...change }));
    add(9, { _SYSTEMD_UNIT: 'a.service' });
    add(8, { UNIT: 'a.service', SYSLOG_FACILITY: ['4', '10'] });
    survey.add('not JSON');
    expect(survey.entries).to.equal(2);
    expect(survey.of(unitLog('a.service'))).to.deep.equal({ count: 2, newestAt: 9 });
    expect(survey.of(unitLog('b.service'))).to.equal(undefined);
  });

  it('gets ids that JSON can carry, with the time in them', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: Date.UTC(2200, 0) }), fc.nat(), (ms, within) => {
        const id = timedRecordId(ms, within);
        expect(Number.isSafeInteger(id)).to.equal(true);
        expect(recordTimes(id)).to.include(ms);
      }),
    );
    expect(new Set(Array.from({ length: 2048 }, (_, n) => timedRecordId(5, 7_000 + n))).size).to.equal(2048);
  });
});
