import { expect } from 'chai';
import {
  parseTimestamp,
  parseUnifiedLine,
  predicateOf,
  quoted,
  spansBack,
  UNIFIED_LOGS,
} from '../../../../../src/agent/capabilities/event-logs/macos-reader.ts';
import { LogEntry } from '../../../../../src/protocol/index.ts';

const LINE = JSON.stringify({
  traceID: 29_824_467_992_846_340,
  eventMessage: 'Sandbox: deny(1) file-read-data /etc/x',
  eventType: 'logEvent',
  source: null,
  formatString: '%s',
  userID: 501,
  activityIdentifier: 0,
  subsystem: 'com.apple.sandbox.reporting',
  category: 'violation',
  threadID: 7_421,
  processImagePath: '/usr/libexec/sandboxd',
  timestamp: '2026-01-05 11:11:12.123456+0100',
  machTimestamp: 123,
  messageType: 'Error',
  processID: 0,
  timezoneName: '',
});
const [SYSTEM, FAULTS] = UNIFIED_LOGS;

describe('agent: the unified log of macOS', () => {
  it('maps a line to an entry', () => {
    const entry = parseUnifiedLine(LINE, 'mac');
    expect(entry).to.include({
      timeCreated: '2026-01-05T10:11:12.123Z',
      level: 'error',
      source: 'com.apple.sandbox.reporting',
      category: 'violation',
      user: '501',
      computer: 'mac',
      raw: LINE,
    });
    expect(LogEntry.safeParse(entry).success).to.equal(true);
  });

  it('skips the last line with the count, and lines that are not JSON', () => {
    for (const line of ['{"count":12,"finished":1}', 'Filtering the log data', '']) {
      expect(parseUnifiedLine(line, 'mac')).to.equal(undefined);
    }
    expect(parseTimestamp('2026-01-05 11:11:12')).to.equal(undefined);
  });

  it('escapes text so that it stays within its quotes', () => {
    expect(quoted('a" OR 1 == 1 OR "\\')).to.equal('"a\\" OR 1 == 1 OR \\"\\\\"');
    if (SYSTEM === undefined || FAULTS === undefined) throw new Error('logs');
    expect(predicateOf(SYSTEM, {})).to.equal(undefined);
    expect(predicateOf(FAULTS, { level: ['information'], text: 'x"y' })).to.equal(
      'messageType == fault AND (messageType == default OR messageType == info) AND eventMessage CONTAINS[c] "x\\"y"',
    );
  });

  it('reads back in adjacent spans that cover the whole range', () => {
    const end = 10 * 86_400_000;
    const spans = [...spansBack(end, 0)];
    expect(spans[0]?.to).to.equal(end);
    expect(spans.at(-1)?.from).to.equal(0);
    for (let i = 1; i < spans.length; i += 1) expect(spans[i]?.to).to.equal(spans[i - 1]?.from);
    expect([...spansBack(5, 5)]).to.deep.equal([]);
  });
});
