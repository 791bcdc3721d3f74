import { expect } from 'chai';
import * as fc from 'fast-check';
import {
  NO_MESSAGE,
  parseElements,
  unescapeText,
  parseEventXml,
  EventSplitter,
} from '../../../../../src/agent/capabilities/event-logs/event-xml.ts';
import { isLogName } from '../../../../../src/agent/capabilities/event-logs/windows-reader.ts';
import { eventXPath, isExact } from '../../../../../src/agent/capabilities/event-logs/windows-xpath.ts';
import { LogEntry } from '../../../../../src/protocol/index.ts';
import { describeRecorded } from '../../../../support/recorded.ts';

const NS = "xmlns='http://schemas.microsoft.com/win/2004/08/events/event'";
const system = ({
  id = '12',
  level = '4',
  keywords = '0x80000000000000',
  provider = "<Provider Name='P'/>",
  user = '<Security/>',
} = {}) =>
  `<System>${provider}<EventID>7</EventID><Level>${level}</Level><Keywords>${keywords}</Keywords>` +
  `<TimeCreated SystemTime='2026-01-05T10:11:13.0000000Z'/><EventRecordID>${id}</EventRecordID><Computer>BER</Computer>${user}</System>`;
const event = (rest: string, more: Parameters<typeof system>[0] = {}) =>
  `<Event ${NS}>${system(more)}${rest}</Event>`;
const data = (...values: string[]) =>
  `<EventData>${values.map((value) => `<Data>${value}</Data>`).join('')}</EventData>`;

/** The message of an event that Windows has no text for. */
const unnamed = (...values: string[]) => [...values, NO_MESSAGE].join('\n');

/** Everything at once: of a chunk, and of single characters. */
function split(text: string, size = text.length): string[] {
  const splitter = new EventSplitter();
  const found: string[] = [];
  for (let at = 0; at < text.length; at += size) found.push(...splitter.add(text.slice(at, at + size)));
  return [...found, ...splitter.end()];
}

/** Characters that mean something to a format, and others. The whole of Unicode takes seconds to set up. */
const odd = fc.constantFrom(...Array.from('<>&\'"ä😀\n\ta]=;\\{}kKiİ\u212a \u0001'));

describe('agent: no Windows event is lost', () => {
  const shown: [string, string, { message?: string; [name: string]: unknown }][] = [
    ['data with text of its own', event('<EventData>own<Data>a</Data></EventData>'), { message: 'own\na' }],
    ['two lists of data', event(data('a') + data('b')), { message: 'a\nb' }],
    ['data without elements', event('<EventData>alone</EventData>'), { message: 'alone' }],
    ['the end of an event in data', event(data('<![CDATA[x</Event>y]]>')), { message: 'x</Event>y' }],
    ['an event within its data', event(`<UserData><Event><A>1</A></Event></UserData>`), { message: 'A: 1' }],
    [
      'a provider without attributes',
      event(data('a'), { provider: '<Provider/>' }),
      { source: '', message: 'a' },
    ],
    ['no provider', event(data('a'), { provider: '' }), { source: '' }],
    [
      'only an older name of the provider',
      event('', { provider: "<Provider EventSourceName='Old'/>" }),
      { source: 'Old' },
    ],
    [
      'deep nesting',
      event(`<UserData>${'<a>'.repeat(1_000)}deep${'</a>'.repeat(1_000)}</UserData>`),
      { message: 'a: deep' },
    ],
    [
      'names of JavaScript',
      event(
        '<UserData><constructor>1</constructor><__proto__>2</__proto__><toString>3</toString></UserData>',
      ),
      { message: 'constructor: 1\n__proto__: 2\ntoString: 3' },
    ],
    ['a record id over 2^53', event(data('a'), { id: '9007199254740997' }), { recordId: 5 }],
    ['a record id that is no number', event(data('a'), { id: '' }), { recordId: 0 }],
    [
      'an empty message',
      event(`${data('a')}<RenderingInfo><Message></Message></RenderingInfo>`),
      { message: 'a' },
    ],
    ['no message', event(`${data('a')}<RenderingInfo/>`), { message: 'a' }],
    [
      'attributes of what a provider made up',
      event("<UserData xmlns:x='y'><Start><Info ProcessName='Setup.exe'/><Id>4</Id></Start></UserData>"),
      { message: 'ProcessName: Setup.exe\nId: 4' },
    ],
    [
      'references to characters',
      event(data('a&#10;b&#x41;&amp;lt; &unknown; &#0;')),
      { message: 'a\nbA&lt; &unknown; &#0;' },
    ],
    ['a level of a provider', event(data('a'), { level: '16' }), { level: 'information' }],
    [
      'values with names, with numbers, and in binary',
      event(
        "<EventData><Data Name='User'>anna</Data><Data Name='param1'>one</Data><Data Name='Empty'></Data><Binary>0A0B</Binary></EventData>",
      ),
      { message: 'User: anna\none\nBinary: 0A0B' },
    ],
    [
      'a user whose name is in its data',
      event(
        "<EventData><Data Name='SubjectUserSid'>S-1-5-18</Data><Data Name='SubjectUserName'>BER$</Data><Data Name='TargetUserSid'>S-1-5-21-1-2-3-500</Data><Data Name='TargetUserName'>anna</Data><Data Name='TargetDomainName'>CORP</Data></EventData>",
        { user: "<Security UserID='S-1-5-21-1-2-3-500'/>" },
      ),
      { user: String.raw`CORP\anna` },
    ],
    [
      'the account of the system as its user',
      event(data('a'), { user: "<Security UserID='S-1-5-18'/>" }),
      { user: String.raw`NT AUTHORITY\SYSTEM` },
    ],
    [
      'a user whose name is nowhere',
      event(data('a'), { user: "<Security UserID='S-1-5-21-1-2-3-500'/>" }),
      { user: 'S-1-5-21-1-2-3-500' },
    ],
    ['an end that was never started', event('</b><EventData><Data>a</EventData>'), { message: 'a' }],
  ];
  for (const [what, xml, expected] of shown) {
    it(`shows an event with ${what}`, () => {
      for (const size of [xml.length * 2, 7]) {
        const all = split(`${xml}\r\n${event(data('next'))}`, size);
        expect(all).to.have.length(2);
        const entry = parseEventXml(all[0] ?? '');
        const { message, ...others } = expected;
        expect(entry).to.include(message === undefined ? others : { ...others, message: unnamed(message) });
        expect(LogEntry.safeParse(entry).success).to.equal(true);
      }
    });
  }

  it('finds a refused sign-in by its keywords: it has no level of its own', () => {
    const refused = event(data('anna'), { level: '0', keywords: '0x8010000000000000' });
    const granted = event(data('anna'), { level: '0', keywords: '0x8020000000000000' });
    expect([refused, granted].map((xml) => parseEventXml(xml)?.level)).to.deep.equal([
      'warning',
      'information',
    ]);
    const failures = '((Level=0 or Level=4 or Level>5) and band(Keywords,4503599627370496))';
    expect(eventXPath({ level: ['error', 'warning'] })).to.equal(
      `*[System[(Level=2 or Level=3 or ${failures})]]`,
    );
    expect(isExact({ level: ['warning'] }, undefined)).to.equal(true);
    expect(isExact({ level: ['information'] }, undefined)).to.equal(false);
  });

  it('names the provider in the query, and quotes it', () => {
    expect(eventXPath({ source: 'x' }, { providers: ['X', "x'y"] })).to.equal(
      `*[System[Provider[@Name='X' or @Name="x'y"]]]`,
    );
    // What XPath cannot quote is compared here.
    const both = [`'] or "`];
    expect(eventXPath({ source: both[0] }, { providers: both })).to.equal('*');
    expect(isExact({ source: both[0] }, both)).to.equal(false);
    expect(isExact({ source: 'unknown' }, undefined)).to.equal(false);
    expect(['System', '/?', '/lf:true', '-x', 'a"b', 'a\nb', ''].map(isLogName)).to.deep.equal([
      true,
      ...Array.from({ length: 6 }, () => false),
    ]);
  });

  it('goes on behind an event without an end, and counts it', () => {
    const splitter = new EventSplitter();
    const [one, two] = [event(data('one')), event(data('two'))];
    expect([...splitter.add(`<Event ${NS}><System>${one}${two}`), ...splitter.end()]).to.deep.equal([
      one,
      two,
    ]);
    expect(splitter.lost).to.equal(1);
    const long = new EventSplitter();
    expect(long.add(`<Event ${NS}>${'x'.repeat(2_100_000)}${one}`)).to.deep.equal([one]);
    expect(long.lost).to.equal(1);
  });

  it('reads back any text that was escaped, in any chunks', () => {
    const escaped = (text: string) =>
      text.replace(/[<>&'"]/g, (character) => `&#${character.charCodeAt(0)};`).replace(/\r/g, '&#xD;');
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: odd }), { maxLength: 4 }),
        fc.integer({ min: 5, max: 90 }),
        (texts, size) => {
          const [first, second, ...others] = split(
            event(data(...texts.map(escaped))) + event(data('next')),
            size,
          );
          const values = texts.map((text) => text.trim()).filter((text) => text !== '');
          expect(parseEventXml(first ?? '')?.message).to.equal(unnamed(...values));
          expect(second).to.equal(event(data('next')));
          expect(others).to.deep.equal([]);
        },
      ),
      { numRuns: 25 },
    );
  });

  it('fails for no text at all', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.constantFrom(
            '<Event>',
            '</Event>',
            '<',
            '>',
            '<![CDATA[',
            ']]>',
            '<!--',
            '-->',
            '&#1114112;',
            "a='",
            '/',
            'x',
            '<?',
            '&',
          ),
        ),
        (parts) => {
          const text = parts.join('');
          for (const xml of [text, ...split(text, 3)]) {
            parseEventXml(xml);
            parseElements(xml);
          }
          unescapeText(text);
        },
      ),
    );
  });
});

describeRecorded('windows/event-logs', 'recorded events of Windows', ({ files, text }) => {
  it('shows each of the recorded events of twenty real logs', () => {
    let failed = 0;
    let withUserData = 0;
    for (const file of files.filter((name) => /^[^/]*\.xml$/.test(name))) {
      const lines = text(file).trim().split('\n');
      const some = lines.slice(0, 150);
      const found = split(some.join('\n'), 65_536);
      expect(found, file).to.deep.equal(some);
      for (const xml of found) {
        const entry = parseEventXml(xml);
        // One record of a damaged file has neither a time nor anything else.
        if (entry === undefined) expect(xml).to.include('<TimeCreated SystemTime="">');
        else expect(LogEntry.safeParse(entry).success).to.equal(true);
        const id = /<EventID[^>]*>(\d+)/.exec(xml)?.[1];
        if (entry !== undefined) expect(entry.eventId).to.equal(Number(id));
        if (id === '4625') failed += entry?.level === 'warning' ? 1 : 0;
        const userData = /<UserData>.*<\/UserData>/s.exec(xml)?.[0].replaceAll(/<[^>]*>/g, '') ?? '';
        if (userData.trim() !== '') {
          withUserData += 1;
          expect(entry?.message).not.to.equal('');
        }
      }
    }
    expect(failed).to.be.greaterThan(0);
    expect(withUserData).to.be.greaterThan(100);
  });
});
