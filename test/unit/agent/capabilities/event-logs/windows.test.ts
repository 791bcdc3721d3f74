import { expect } from 'chai';
import {
  EventSplitter,
  parseEventXml,
  windowsEncoding,
} from '../../../../../src/agent/capabilities/event-logs/event-xml.ts';
import {
  listedLogs,
  parseNames,
  parseProperties,
} from '../../../../../src/agent/capabilities/event-logs/windows-reader.ts';
import { eventXPath, recordsXPath } from '../../../../../src/agent/capabilities/event-logs/windows-xpath.ts';
import { LogEntry } from '../../../../../src/protocol/index.ts';

const NS = "xmlns='http://schemas.microsoft.com/win/2004/08/events/event'";
const SERVICE =
  `<Event ${NS}><System><Provider Name='Service Control Manager' Guid='{555908d1-a6d7-4695-8e1e-26931d2012f4}' EventSourceName='Service Control Manager'/>` +
  `<EventID Qualifiers='16384'>7036</EventID><Version>0</Version><Level>4</Level><Task>0</Task><Opcode>0</Opcode><Keywords>0x8080000000000000</Keywords>` +
  `<TimeCreated SystemTime='2026-01-05T10:11:12.1234567Z'/><EventRecordID>4711</EventRecordID><Correlation/><Execution ProcessID='780' ThreadID='4321'/>` +
  `<Channel>System</Channel><Computer>BER-WS-0001</Computer><Security/></System><EventData><Data Name='param1'>Windows Update</Data><Data Name='param2'>running</Data></EventData>` +
  `<RenderingInfo Culture='en-US'><Message>The Windows Update service entered the running state.</Message><Level>Information</Level><Task></Task><Opcode></Opcode><Channel></Channel><Provider>Microsoft-Windows-Service Control Manager</Provider><Keywords><Keyword>Classic</Keyword></Keywords></RenderingInfo></Event>`;
const LOGON =
  `<Event ${NS}><System><Provider Name='Microsoft-Windows-Security-Auditing'/><EventID>4624</EventID><Level>0</Level>` +
  `<TimeCreated SystemTime='2026-01-05T10:11:13.0000000Z'/><EventRecordID>12</EventRecordID><Computer>BER</Computer><Security UserID='S-1-5-18'/></System>` +
  `<EventData><Data Name='SubjectUserName'>anna &amp; ben</Data><Data>two</Data></EventData></Event>`;

describe('agent: Windows events', () => {
  it('maps a rendered event, and keeps its XML', () => {
    const entry = parseEventXml(SERVICE);
    expect(entry).to.deep.equal({
      recordId: 4711,
      timeCreated: '2026-01-05T10:11:12.123Z',
      level: 'information',
      source: 'Service Control Manager',
      eventId: 7036,
      message: 'The Windows Update service entered the running state.',
      category: '',
      user: null,
      computer: 'BER-WS-0001',
      rawXml: SERVICE,
    });
    expect(LogEntry.safeParse(entry).success).to.equal(true);
  });

  it('shows the data of an event that Windows could not render', () => {
    expect(parseEventXml(LOGON)).to.include({
      message: 'SubjectUserName: anna & ben\ntwo\n(Windows has no text for this event.)',
      user: String.raw`NT AUTHORITY\SYSTEM`,
      level: 'information',
    });
  });

  it('maps every level', () => {
    const levels = [0, 1, 2, 3, 4, 5].map(
      (level) => parseEventXml(LOGON.replace('<Level>0', `<Level>${level}`))?.level,
    );
    expect(levels).to.deep.equal(['information', 'critical', 'error', 'warning', 'information', 'verbose']);
  });

  it('skips text that is not an event, and does not expand entities', () => {
    for (const xml of ['', '<Event>', '<Event></Event>', 'text', '<!DOCTYPE x [<!ENTITY a "b">]><Event/>']) {
      expect(parseEventXml(xml)).to.equal(undefined);
    }
  });

  it('splits a stream into events wherever its chunks end', () => {
    const all = `\uFEFF${SERVICE}\r\n${LOGON}\r\n`;
    for (const size of [1, 7, 100, 5_000]) {
      const splitter = new EventSplitter();
      const found: string[] = [];
      for (let at = 0; at < all.length; at += size) found.push(...splitter.add(all.slice(at, at + size)));
      expect(found).to.deep.equal([SERVICE, LOGON]);
    }
  });

  it('distinguishes UTF-16 from UTF-8 by the first bytes', () => {
    expect(windowsEncoding(Buffer.from('\uFEFF<E', 'utf16le'))).to.equal('utf16le');
    expect(windowsEncoding(Buffer.from('<E', 'utf16le'))).to.equal('utf16le');
    expect(windowsEncoding(Buffer.from('<Event'))).to.equal('utf8');
  });

  it('builds XPath from numbers and times only', () => {
    expect(eventXPath({})).to.equal('*');
    expect(eventXPath({ source: "x' or '1", text: "'] | *[" })).to.equal('*');
    expect(
      eventXPath({
        level: ['error', 'information'],
        eventId: 7,
        startTime: '2026-01-01T00:00:00.000Z',
        endTime: '2026-01-02T00:00:00.000Z',
      }),
    ).to.equal(
      "*[System[(Level=0 or Level=2 or Level=4 or Level>5) and (EventID=7) and TimeCreated[@SystemTime>='2026-01-01T00:00:00.000Z' and @SystemTime<='2026-01-02T00:00:00.0009999Z']]]",
    );
    expect(eventXPath({}, { afterRecord: 99 })).to.equal('*[System[(EventRecordID>99)]]');
    expect(recordsXPath([4711])).to.equal('*[System[(EventRecordID=4711)]]');
  });

  it('parses the plain output of wevtutil', () => {
    const state = parseProperties(
      'creationTime: 2025-03-01T08:00:00.000Z\r\nlastWriteTime: 2026-01-05T10:11:12.123Z\r\nfileSize: 20975616\r\nnumberOfLogRecords: 32042\r\noldestRecordNumber: 1\r\n',
    );
    expect([state.get('numberoflogrecords'), state.get('lastwritetime')]).to.deep.equal([
      '32042',
      '2026-01-05T10:11:12.123Z',
    ]);
    const settings = parseProperties(
      'name: System\r\nlogging:\r\n  logFileName: %SystemRoot%\\x.evtx\r\n  maxSize: 20971520\r\n',
    );
    expect(settings.get('maxsize')).to.equal('20971520');
    const names = parseNames(
      '\uFEFFHardwareEvents\r\nSystem\r\nMicrosoft-Windows-Foo/Debug\r\nApplication\r\n\r\n',
    );
    expect(listedLogs(names)).to.deep.equal(['Application', 'System', 'HardwareEvents']);
  });
});
