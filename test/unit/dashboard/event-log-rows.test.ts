import { expect } from 'chai';
import fc from 'fast-check';
import {
  collapsedLines,
  linesOf,
  curlOf,
  mergeRows,
  type LogRow,
  readContext,
  type ReadBetween,
} from '../../../src/dashboard/features/event-logs/log-row.ts';
import {
  jsonLinesOf,
  tableOf,
  xmlOf,
  markMatches,
  prettyJson,
  prettyXml,
} from '../../../src/dashboard/features/event-logs/entry-text.ts';
import { describeHistogram, histogramOf } from '../../../src/dashboard/features/event-logs/histogram.ts';
import { instantIn, timeIn } from '../../../src/dashboard/features/event-logs/log-time.ts';
import { XMLParser, XMLValidator } from 'fast-xml-parser';
import { rowOf, T0 } from './log-rows.ts';

const numbers = (rows: readonly LogRow[]) => rows.map(({ recordId }) => recordId);

describe('the entries of the event log viewer', () => {
  it('are shown newest first and once, however they arrive', () => {
    const known = mergeRows([], [rowOf(1), rowOf(3)]).rows;
    const { rows, dropped } = mergeRows(known, [rowOf(2), rowOf(3), rowOf(4)]);
    expect(numbers(rows)).to.deep.equal([4, 3, 2, 1]);
    expect(dropped).to.equal(0);
    expect(mergeRows(rows, [rowOf(2)]).rows).to.equal(rows);
  });

  it('are dropped from the oldest end if there are too many, and that is counted', () => {
    const { rows, dropped } = mergeRows([rowOf(1), rowOf(2)], [rowOf(3), rowOf(4)], 3);
    expect(numbers(rows)).to.deep.equal([4, 3, 2]);
    expect(dropped).to.equal(1);
  });

  it('with the same number in a rotated file are two entries', () => {
    const again = rowOf(1, { timeCreated: '2026-02-01T00:00:00.000Z' });
    expect(mergeRows([rowOf(1)], [again]).rows).to.have.length(2);
  });

  describe('over time', () => {
    it('are all counted, in bars of equal length that fit into the room', () => {
      const times = fc.array(fc.integer({ min: 1, max: 4_000_000_000_000 }), { minLength: 1, maxLength: 60 });
      fc.assert(
        fc.property(times, fc.integer({ min: 1, max: 120 }), (all, room) => {
          const rows = all.map((at, place) => ({ ...rowOf(place), at }));
          const { buckets, total, most } = histogramOf(rows, room);
          expect(total).to.equal(rows.length);
          expect(buckets.length).to.be.within(1, room);
          expect(buckets.reduce((sum, bucket) => sum + bucket.total, 0)).to.equal(rows.length);
          expect(Math.max(...buckets.map((bucket) => bucket.total))).to.equal(most);
          for (const at of all) expect(buckets.some(({ from, to }) => from <= at && at < to)).to.equal(true);
        }),
        { numRuns: 60 },
      );
    });

    it('fit into one bar, however far apart they are', () => {
      const rows = [31_536_000_001, 63_072_000_000].map((at) => ({ ...rowOf(at), at }));
      expect(histogramOf(rows, 1).buckets).to.have.length(1);
    });

    it('are told in words', () => {
      const rows = [rowOf(0), rowOf(1, { level: 'error' }), rowOf(2, { level: 'error' }), rowOf(120)];
      const text = describeHistogram(histogramOf(rows, 10), (at) => timeIn('UTC', at).slice(11, 19));
      expect(text).to.equal(
        '4 entries from 08:00:00 to 08:02:15: 2 error, 2 information. Most of them, 3, between 08:00:00 and 08:00:15.',
      );
      expect(describeHistogram(histogramOf([], 10), String)).to.equal('No entries are loaded.');
    });

    it('without a readable time are left out of the picture, and stay in the list', () => {
      const row = rowOf(1, { timeCreated: 'yesterday' });
      expect(row.at).to.equal(0);
      expect(histogramOf([row, rowOf(2)], 10).total).to.equal(1);
      expect(timeIn('UTC', row.at)).to.equal('Unknown time');
    });
  });

  describe('that repeat', () => {
    const rows = [
      rowOf(5, { message: 'Bad block at 0x9f' }),
      rowOf(4, { message: 'Bad block at 0x1a' }),
      rowOf(3, { message: 'Bad block at 0x1b', level: 'error' }),
      rowOf(2, { message: 'Name resolution failed' }),
      rowOf(1, { message: 'Bad block at 0x9f' }),
    ];

    it('are one line if only numbers differ, and not if the level differs or another stands between', () => {
      const lines = collapsedLines(rows, new Set());
      expect(lines.map(({ row, count }) => [row.recordId, count])).to.deep.equal([
        [5, 2],
        [3, 1],
        [2, 1],
        [1, 1],
      ]);
    });

    it('are each shown if the line is opened', () => {
      const opened = new Set([rows[0]?.key ?? '']);
      const lines = collapsedLines(rows, opened);
      expect(lines.map(({ row, isRepeat }) => [row.recordId, isRepeat]).slice(0, 2)).to.deep.equal([
        [5, false],
        [4, true],
      ]);
      expect(lines).to.have.length(rows.length);
      expect(linesOf(rows)).to.have.length(rows.length);
    });
  });

  describe('in which a person looks for a word', () => {
    it('keep their text, and every match is marked in any case', () => {
      expect(markMatches('Disk full: DISK 1', ['disk'])).to.deep.equal([
        { text: 'Disk', isMatch: true },
        { text: ' full: ', isMatch: false },
        { text: 'DISK', isMatch: true },
        { text: ' 1', isMatch: false },
      ]);
    });

    it('are taken literally, whatever the word or the text is', () => {
      fc.assert(
        fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (text, word) => {
          expect(
            markMatches(text, [word, 'a.b(c)*', undefined])
              .map((part) => part.text)
              .join(''),
          ).to.equal(text);
        }),
        { numRuns: 60 },
      );
      expect(markMatches('a+b', ['+'])).to.deep.include({ text: '+', isMatch: true });
    });
  });

  describe('as a file', () => {
    const nameOf = () => 'Front desk';
    const hostile = rowOf(1, {
      message: '=cmd|"/c calc"!A1, </Event> \u0000 \uD800 "quoted"\nsecond line',
      rawXml: '<Event><Data>1</Data></Event></Events><Events><Event></Event>',
    });

    it('of a table hold every field, in the order of the headings', () => {
      const [headings, cells] = tableOf([hostile], nameOf);
      expect(
        Object.fromEntries(headings?.map((heading, place) => [heading, cells?.[place]]) ?? []),
      ).to.include({
        'Time (UTC)': '2026-01-31T08:00:01.000Z',
        Level: 'Information',
        Source: 'sshd',
        'Event ID': '7',
        Message: hostile.message,
        Device: 'Front desk',
        Record: 1,
      });
      expect(cells).to.have.length(headings?.length ?? 0);
    });

    it('of JSON lines are read back as they were', () => {
      const lines = jsonLinesOf([hostile, rowOf(2)], nameOf)
        .trimEnd()
        .split('\n');
      const [first] = lines.map((line): unknown => JSON.parse(line));
      expect(lines).to.have.length(2);
      expect(first).to.include({ recordId: 1, device: 'Front desk', rawXml: hostile.rawXml });
    });

    it('of XML are one document, whatever a device calls XML', () => {
      const good = '<?xml version="1.0"?><Event xmlns="urn:x"><System><EventID>7</EventID></System></Event>';
      const entity = '<!DOCTYPE x [<!ENTITY a "b">]><Event>&a;</Event>';
      const twice = '<Event><X>1</X></Event><Event><X>2</X></Event>';
      const rows = [
        hostile,
        rowOf(2, { rawXml: good }),
        rowOf(3, { rawXml: entity }),
        rowOf(4, { rawXml: twice }),
      ];
      const text = xmlOf(rows, nameOf);
      expect(XMLValidator.validate(text)).to.equal(true);
      const { Events } = new XMLParser().parse(text) as {
        Events: { Event: { EventID?: number; System?: object }[] };
      };
      expect(Events.Event).to.have.length(4);
      expect(Events.Event[1]?.System).to.deep.equal({ EventID: 7 });
      expect(Events.Event[0]?.EventID).to.equal(7);
      expect(text).not.to.contain('<!');
    });
  });

  it('are read by a command in which no text of a device ends its quotes', () => {
    expect(curlOf("https://x/a'b")).to.equal(
      String.raw`curl --fail-with-body -H "Authorization: Bearer $MUSTER_TOKEN" 'https://x/a'\''b'`,
    );
  });

  it('have times in any zone, and times of a zone become instants, also beside a change of the clocks', () => {
    expect(timeIn('Europe/Berlin', T0)).to.equal('2026-01-31 09:00:00.000');
    expect(timeIn('No/Zone', T0)).to.equal('2026-01-31 08:00:00.000');
    for (const at of [T0, Date.parse('2026-03-29T00:30:00Z'), Date.parse('2026-03-29T01:30:00Z')]) {
      const field = timeIn('Europe/Berlin', at).slice(0, 19).replace(' ', 'T');
      expect(instantIn('Europe/Berlin', field)).to.equal(at);
    }
    expect(instantIn('UTC', '')).to.equal(undefined);
  });

  it('have an original that is easier to read with indentation, and is never changed', () => {
    expect(
      prettyXml('<Event><System a="1"><EventID>7</EventID><X/></System></Event>').split('\n'),
    ).to.deep.equal([
      '<Event>',
      '  <System a="1">',
      '    <EventID>7</EventID>',
      '    <X/>',
      '  </System>',
      '</Event>',
    ]);
    expect(prettyXml('no xml < at all')).to.contain('no xml');
    expect(prettyJson('{"a":1}')).to.equal('{\n  "a": 1\n}');
    expect(prettyJson('lines')).to.equal(undefined);
  });

  describe('around one', () => {
    /** A device as it answers: the newest entries of a range. */
    const deviceWith = (rows: readonly LogRow[]): { read: ReadBetween; reads: () => number } => {
      let reads = 0;
      return {
        reads: () => reads,
        read: ({ startTime, endTime, limit }) => {
          reads++;
          const from = startTime === undefined ? -Infinity : Date.parse(startTime);
          const within = rows.filter(({ at }) => at >= from && at <= Date.parse(endTime));
          return Promise.resolve(mergeRows([], within).rows.slice(0, limit));
        },
      };
    };
    const around = (center: number) => Array.from({ length: 41 }, (_, place) => center + 20 - place);

    for (const [name, apart] of [
      ['close together', 0.01],
      ['a second apart', 1],
      ['an hour apart', 3_600],
    ] as const) {
      it(`are the 20 before and after it, if entries are ${name}`, async () => {
        const rows = Array.from({ length: 3_000 }, (_, id) =>
          rowOf(id, { timeCreated: new Date(T0 + id * apart * 1000).toISOString() }),
        );
        const center = rows[1_500];
        const last = rows.at(-1);
        if (center === undefined || last === undefined) throw new Error('There are rows.');
        const device = deviceWith(rows);
        const found = await readContext(center, device.read, last.at);
        expect(numbers(found)).to.deep.equal(around(1_500));
        expect(device.reads()).to.be.below(10);
      });
    }

    it('are fewer at the ends of the log', async () => {
      const rows = [rowOf(1), rowOf(2), rowOf(3)];
      const [first] = rows;
      if (first === undefined) throw new Error('There are rows.');
      const found = await readContext(first, deviceWith(rows).read, T0 + 60_000);
      expect(numbers(found)).to.deep.equal([3, 2, 1]);
    });
  });
});
