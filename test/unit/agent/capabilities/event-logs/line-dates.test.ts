import { expect } from 'chai';
import * as fc from 'fast-check';
import { parseHead } from '../../../../../src/agent/capabilities/event-logs/text/line-format.ts';

const WRITTEN = Date.parse('2026-11-28T00:00:00Z');
const local = (text: string) => new Date(text).getTime();
const utc = (text: string) => Date.parse(text);
const FOUR = local('2026-11-27T04:00:00');

interface Expected {
  at: number;
  level?: string;
  message?: string;
  source?: string;
  computer?: string;
}

/** Characters that mean something to a format, and others. The whole of Unicode takes seconds to set up. */
const odd = fc.constantFrom(...Array.from('<>&\'"ä😀\n\ta]=;\\{}kKiİ\u212a \u0001'));

describe('agent: the dates and fields of log lines', () => {
  const lines: [string, Expected][] = [
    // Dates
    ['27-Nov-2026 04:00:00.123 general: info: x', { at: FOUR + 123, message: 'general: info: x' }],
    ['27-NOV-2026 04:00:00 x', { at: FOUR, message: 'x' }],
    [
      '[27-Nov-2026 04:00:00 Europe/Berlin] PHP Fatal error:  x',
      { at: FOUR, message: 'PHP Fatal error:  x' },
    ],
    ['[27-Nov-2026 03:00:00 UTC] x', { at: utc('2026-11-27T03:00:00Z'), message: 'x' }],
    ['27.11.2026 04:00:00 x', { at: FOUR, message: 'x' }],
    ['[27.11.2026 04:00:00] x', { at: FOUR, message: 'x' }],
    ['27.11.26 04:00:00 x', { at: FOUR }],
    ['2026/11/27 04:00:00 [error] 9#0: open() failed', { at: FOUR, message: '[error] 9#0: open() failed' }],
    ['2026-11-27  4:00:00 0 [Note] InnoDB: started', { at: FOUR, message: '0 [Note] InnoDB: started' }],
    ['261127  4:00:00 [Warning] x', { at: FOUR, message: '[Warning] x' }],
    ['2026-11-27 04:00:00,123 - util.py[DEBUG]: x', { at: FOUR + 123, message: '- util.py[DEBUG]: x' }],
    [
      '2026-11-27 04:00:00.123 CET [77] LOG:  ready',
      { at: utc('2026-11-27T03:00:00.123Z'), message: '[77] LOG:  ready' },
    ],
    ['2026-11-27 04:00:00+01 x', { at: utc('2026-11-27T03:00:00Z'), message: 'x' }],
    ['2026-11-27 04:00:00 INFO x', { at: FOUR, message: 'INFO x' }],
    ['2026-11-27 04:00 x', { at: FOUR, message: 'x' }],
    ['2026-1-7 4:00:00 x', { at: local('2026-01-07T04:00:00') }],
    ['20261127T040000Z x', { at: utc('2026-11-27T04:00:00Z'), message: 'x' }],
    ['20261127 04:00:00 x', { at: FOUR, message: 'x' }],
    ['11/27/2026 4:00:00 PM x', { at: local('2026-11-27T16:00:00'), message: 'x' }],
    ['27/11/2026 04:00:00 x', { at: FOUR, message: 'x' }],
    [
      'Nov 27, 2026 4:00:00 AM org.apache.catalina.core x',
      { at: FOUR, message: 'org.apache.catalina.core x' },
    ],
    ['Nov 27 2026 04:00:00: %ASA-6-302013: x', { at: FOUR, message: '%ASA-6-302013: x' }],
    ['Fri Nov 27 04:00:00 2026 x', { at: FOUR, message: 'x' }],
    ['Fri Nov 27 04:00:00 CET 2026: x', { at: utc('2026-11-27T03:00:00Z'), message: 'x' }],
    ['Fri, 27 Nov 2026 03:00:00 +0000 x', { at: utc('2026-11-27T03:00:00Z'), message: 'x' }],
    ['Feb 29 04:00:00 web1 cron: x', { at: local('2024-02-29T04:00:00'), source: 'cron', message: 'x' }],
    ['Nov 29 04:00:00 web1 cron: x', { at: local('2025-11-29T04:00:00') }],
    [
      '1795752000.123    250 10.0.0.1 TCP_MISS/200',
      { at: 1_795_752_000_123, message: '250 10.0.0.1 TCP_MISS/200' },
    ],
    ['1795752000123456 x', { at: 1_795_752_000_123, message: 'x' }],
    ['1795752000123456789: x', { at: 1_795_752_000_123, message: 'x' }],
    // Headers
    [
      'I1127 04:00:00.123456   12345 file.go:42] x',
      { at: FOUR + 123, level: 'information', source: 'file.go', message: 'x' },
    ],
    ['E1127 04:00:00.123456       1 reflector.go:147] x', { at: FOUR + 123, level: 'error' }],
    ['ERROR 2026-11-27 04:00:00,123 x', { at: FOUR + 123, level: 'error', message: 'x' }],
    [
      'INFO  [2026-11-27 04:00:00,123] com.example: x',
      { at: FOUR + 123, level: 'information', message: 'com.example: x' },
    ],
    [
      'E, [2026-11-27T04:00:00.123456 #1234] ERROR -- : x',
      { at: FOUR + 123, level: 'error', message: 'ERROR -- : x' },
    ],
    ['E [27/Nov/2026:03:00:00 +0000] x', { at: utc('2026-11-27T03:00:00Z'), level: 'error', message: 'x' }],
    ['[main] 2026-11-27 04:00:00 x', { at: FOUR, message: 'x' }],
    ['[ERROR] 2026-11-27 04:00:00 x', { at: FOUR, level: 'error', message: 'x' }],
    [
      '[2026/11/27 04:00:00.123456,  0] ../source3/smbd.c:1(x)',
      { at: FOUR + 123, message: '../source3/smbd.c:1(x)' },
    ],
    ['[2026-11-27 04:00:00 WARN] x', { at: FOUR, level: 'warning', message: 'x' }],
    ['"2026-11-27 04:00:00","x"', { at: FOUR }],
    [
      '<34>1 2026-11-27T03:00:00.003Z mymachine su - ID47 [a b="c]\\"d"] \uFEFFfailed',
      {
        at: utc('2026-11-27T03:00:00.003Z'),
        level: 'critical',
        computer: 'mymachine',
        source: 'su',
        message: 'failed',
      },
    ],
    [
      '<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - - %% x',
      {
        at: utc('2003-08-24T12:14:15Z'),
        level: 'information',
        computer: '192.0.2.1',
        source: 'myproc',
        message: '%% x',
      },
    ],
    ['type=USER_AUTH msg=audit(1795752000.123:456): pid=1', { at: 1_795_752_000_123, source: 'audit' }],
    [
      '2026-11-27T03:00:00.5Z stdout F {"level":"error","msg":"x"}',
      { at: utc('2026-11-27T03:00:00.5Z'), level: 'error', message: 'x' },
    ],
    [
      'Nov 27 04:00:00 web1 app[7]: {"level":50,"msg":"x"}',
      { at: FOUR, level: 'error', source: 'app', message: 'x' },
    ],
    ['2026-11-27T03:00:00Z ERROR app: x', { at: utc('2026-11-27T03:00:00Z'), message: 'ERROR app: x' }],
    // Colours
    [
      '\x1b[32m2026-11-27T03:00:00Z\x1b[0m \x1b[1;31mERROR\x1b[0m x',
      { at: utc('2026-11-27T03:00:00Z'), message: 'ERROR x' },
    ],
    ['Nov 27 04:00:00 h app: #033[31mx#033[0m', { at: FOUR, message: 'x' }],
    ['\uFEFF2026-11-27 04:00:00 x', { at: FOUR, message: 'x' }],
  ];
  for (const [line, expected] of lines) {
    it(`reads ${line.slice(0, 60)}`, () => {
      expect(parseHead(line, WRITTEN)).to.deep.include(expected);
    });
  }

  const AT = 1_795_752_000_000;
  const fields: [string, object, object][] = [
    ['pino', { level: 50, time: AT, pid: 1, hostname: 'h', msg: 'x' }, { level: 'error', computer: 'h' }],
    [
      'bunyan',
      { name: 'app', hostname: 'h', level: 30, msg: 'x', time: '2026-11-27T04:00:00.000Z', v: 0 },
      { level: 'information', source: 'app' },
    ],
    [
      'zap',
      { level: 'dpanic', ts: AT / 1000, logger: 'l', caller: 'a.go:1', msg: 'x' },
      { level: 'critical', source: 'l' },
    ],
    ['logrus', { level: 'warning', msg: 'x', time: '2026-11-27T05:00:00+01:00' }, { level: 'warning' }],
    ['Serilog', { '@t': '2026-11-27T04:00:00.0000000Z', '@mt': 'x', '@l': 'Fatal' }, { level: 'critical' }],
    [
      'Serilog, whole',
      { Timestamp: '2026-11-27T04:00:00Z', Level: 'Verbose', MessageTemplate: '{a}', RenderedMessage: 'x' },
      { level: 'verbose' },
    ],
    ['Docker', { log: 'x\n', stream: 'stdout', time: '2026-11-27T04:00:00.000000000Z' }, {}],
    [
      'GELF',
      { version: '1.1', host: 'h', short_message: 'x', timestamp: AT / 1000, level: 3 },
      { level: 'error', computer: 'h' },
    ],
    [
      'ECS',
      { '@timestamp': '2026-11-27T04:00:00Z', 'log.level': 'WARN', message: 'x' },
      { level: 'warning' },
    ],
    [
      'ECS, nested',
      { '@timestamp': '2026-11-27T04:00:00Z', log: { level: 'error' }, message: 'x' },
      { level: 'error' },
    ],
    [
      'MongoDB',
      { t: { $date: '2026-11-27T05:00:00.000+01:00' }, s: 'W', c: 'NETWORK', msg: 'x' },
      { level: 'warning', source: 'NETWORK' },
    ],
    [
      'log4j',
      { instant: { epochSecond: AT / 1000, nanoOfSecond: 0 }, level: 'ERROR', loggerName: 'l', message: 'x' },
      { level: 'error', source: 'l' },
    ],
    [
      '.NET',
      { Timestamp: '2026-11-27T04:00:00Z', EventId: 0, LogLevel: 'Error', Category: 'C', Message: 'x' },
      { level: 'error', source: 'C' },
    ],
    [
      'Google',
      { severity: 'CRITICAL', timestamp: '2026-11-27T04:00:00Z', message: 'x' },
      { level: 'critical' },
    ],
  ];
  for (const [name, record, expected] of fields) {
    it(`reads the time, level and message of ${name}`, () => {
      const head = parseHead(JSON.stringify(record), WRITTEN);
      expect(head).to.deep.include({ at: AT, message: 'x', ...expected });
    });
  }

  it('reads logfmt', () => {
    const traefik = 'time="2026-11-27T04:00:00Z" level=error msg="a \\"b\\"" key=1';
    expect(parseHead(traefik, WRITTEN)).to.deep.include({ at: AT, level: 'error', message: 'a "b"' });
    const prometheus = 'ts=2026-11-27T04:00:00Z caller=main.go:1 level=warn msg=x';
    expect(parseHead(prometheus, WRITTEN)).to.deep.include({ at: AT, level: 'warning', message: 'x' });
  });

  it('adds the stack to the message, and reads the time of JSON that was cut off', () => {
    const line = JSON.stringify({ time: AT, level: 50, msg: 'x', err: { stack: 'Error\n  at y' } });
    expect(parseHead(line, WRITTEN)?.message).to.equal('x\nError\n  at y');
    const cut = JSON.stringify({ time: AT, level: 'error', msg: 'm'.repeat(500) }).slice(0, 300);
    expect(parseHead(cut, WRITTEN)).to.include({ at: AT, level: 'error', message: cut });
  });

  it('takes dates with slashes as the file shows them, or as is nearer to when it was written', () => {
    const written = local('2026-06-10T00:00:00');
    const at = (line: string, dayFirst?: boolean) => parseHead(line, { reference: written, dayFirst })?.at;
    expect(at('05/03/2026 04:00:00 x', true)).to.equal(local('2026-03-05T04:00:00'));
    expect(at('05/03/2026 04:00:00 x', false)).to.equal(local('2026-05-03T04:00:00'));
    expect(at('09/06/2026 04:00:00 x')).to.equal(local('2026-06-09T04:00:00'));
  });

  for (const line of [
    '  2026-11-27 04:00:00 indented',
    '2026-13-27 04:00:00 x',
    '2026-02-29 04:00:00 x',
    '2026-11-27 24:00:00 x',
    '{"msg":"no time"}',
    '{"time":5,"msg":"no time"}',
    '{ a: 1 }',
    'Error: 2 files',
    'Note 12 apples',
    'May be 3 or 4',
    '10.0.0.1 connected',
    '1.2.3 4:00 release',
  ]) {
    it(`takes '${line}' as a continuation`, () => {
      expect(parseHead(line, WRITTEN)).to.equal(undefined);
    });
  }

  it('reads each time that a format can write', () => {
    const pad = (value: number, length = 2) => String(value).padStart(length, '0');
    const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
    const formats: ((d: Date) => string)[] = [
      (d) => d.toISOString(),
      (d) => d.toISOString().replace('T', ' ').replace('Z', '+0000'),
      (d) =>
        `${pad(d.getUTCDate())}/${months[d.getUTCMonth()]}/${d.getUTCFullYear()}:${d.toISOString().slice(11, 19)} +0000`,
      (d) => `<14>1 ${d.toISOString()} h a 1 - -`,
      (d) => `${d.getTime()}`,
      (d) =>
        `${pad(d.getUTCDate())}.${pad(d.getUTCMonth() + 1)}.${d.getUTCFullYear()} ${d.toISOString().slice(11, 23)} UTC`,
      (d) => JSON.stringify({ time: d.getTime() / 1000, msg: 'x' }).replace(/\}$/, ' }'),
    ];
    fc.assert(
      fc.property(
        fc.date({ min: new Date('2002-01-01'), max: new Date('2099-12-31'), noInvalidDate: true }),
        fc.constantFrom(...formats),
        (date, format) => {
          const at = parseHead(`${format(date)} x`, WRITTEN)?.at ?? 0;
          // Some formats have no milliseconds.
          expect(Math.abs(at - date.getTime())).to.be.below(1000);
        },
      ),
    );
  });

  it('fails for no line at all, and never returns a time that is none', () => {
    const token = fc.constantFrom(
      '2026-11-27',
      '04:00:00',
      '[',
      ']',
      '<34>',
      '{"time":',
      '"',
      'ERROR',
      'Nov',
      ' ',
      '99',
      'time=',
      '\x1b[',
      ':',
      '1795752000',
      '}',
      'msg',
    );
    fc.assert(
      fc.property(
        fc.array(fc.oneof(token, fc.string({ unit: odd, maxLength: 5 })), { maxLength: 12 }),
        (parts) => {
          const head = parseHead(parts.join(''), WRITTEN);
          if (head !== undefined) expect(Number.isNaN(new Date(head.at).getTime())).to.equal(false);
        },
      ),
      { numRuns: 500 },
    );
  });
});
