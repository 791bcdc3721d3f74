import { expect } from 'chai';
import { parseHead } from '../../../../../src/agent/capabilities/event-logs/text/line-format.ts';
import { levelOfText } from '../../../../../src/agent/capabilities/event-logs/text/structured-line.ts';

const WRITTEN = Date.parse('2026-01-02T00:00:00Z');
const local = (text: string) => new Date(text).getTime();
const utc = (text: string) => Date.parse(text);

describe('agent: the headers of log lines', () => {
  const cases: [
    string,
    string,
    { at: number; source?: string; computer?: string; message?: string; level?: string },
  ][] = [
    [
      'dpkg',
      '2025-11-20 12:00:01 status installed man-db:amd64 2.11',
      { at: local('2025-11-20T12:00:01'), message: 'status installed man-db:amd64 2.11' },
    ],
    [
      'syslog',
      'Nov 20 12:00:01 web1 sshd[42]: Accepted publickey',
      { at: local('2025-11-20T12:00:01'), source: 'sshd', computer: 'web1', message: 'Accepted publickey' },
    ],
    [
      'syslog of this year',
      'Jan  1 03:04:05 web1 cron: x',
      { at: local('2026-01-01T03:04:05'), source: 'cron' },
    ],
    [
      'precise syslog',
      '2025-11-20T12:00:01.123456+01:00 web1 kernel: up',
      { at: utc('2025-11-20T11:00:01.123Z'), source: 'kernel', computer: 'web1', message: 'up' },
    ],
    ['apt history', 'Start-Date: 2025-11-20  12:00:01', { at: local('2025-11-20T12:00:01'), source: 'apt' }],
    ['apt terminal', 'Log started: 2025-11-20  12:00:01', { at: local('2025-11-20T12:00:01') }],
    ['bracketed', '[2025-11-20 12:00:01] hello', { at: local('2025-11-20T12:00:01'), message: 'hello' }],
    [
      'nginx error',
      '2025/11/20 12:00:01 [error] 9#0: open() failed',
      { at: local('2025-11-20T12:00:01'), message: '[error] 9#0: open() failed' },
    ],
    [
      'access log',
      '10.0.0.1 - bob [20/Nov/2025:12:00:01 +0200] "GET / HTTP/1.1" 503 12',
      { at: utc('2025-11-20T10:00:01Z'), level: 'error' },
    ],
    [
      'apache error',
      '[Thu Nov 20 12:00:01.123456 2025] [core:error] AH1',
      { at: local('2025-11-20T12:00:01.123'), message: '[core:error] AH1' },
    ],
    [
      'postgres',
      '2025-11-20 12:00:01.500 UTC [77] LOG:  ready',
      { at: utc('2025-11-20T12:00:01.500Z'), message: '[77] LOG:  ready' },
    ],
    ['epoch', '1763640001: mosquitto starting', { at: 1_763_640_001_000, message: 'mosquitto starting' }],
    ['epoch in milliseconds', '1763640001250 x', { at: 1_763_640_001_250, message: 'x' }],
    [
      'redis',
      '77:M 20 Nov 2025 12:00:01.040 * Ready',
      { at: local('2025-11-20T12:00:01.040'), message: '* Ready' },
    ],
    [
      'nats',
      '[77] 2025/11/20 12:00:01.500000 [INF] Listening',
      { at: local('2025-11-20T12:00:01.500'), message: '[INF] Listening' },
    ],
    [
      'alternatives',
      'update-alternatives 2025-11-20 12:00:01: run with',
      { at: local('2025-11-20T12:00:01'), source: 'update-alternatives', message: 'run with' },
    ],
    ['priority', '<11>Nov 20 12:00:01 web1 app: x', { at: local('2025-11-20T12:00:01'), level: 'error' }],
  ];
  for (const [name, line, expected] of cases) {
    it(`reads ${name}`, () => {
      expect(parseHead(line, WRITTEN)).to.deep.include(expected);
    });
  }

  for (const line of [
    '',
    '    at Object.<anonymous> (x.js:1:1)',
    'End-Date: 2025-11-20  12:00:01',
    '12345 files',
    'Nova 20',
    '[no date]',
  ]) {
    it(`reads '${line}' as a continuation`, () => {
      expect(parseHead(line, WRITTEN)).to.equal(undefined);
    });
  }

  it('reads levels from words, but not from the names of packages and files', () => {
    expect(levelOfText('[error] x')).to.equal('error');
    expect(levelOfText('FATAL:  role missing')).to.equal('critical');
    expect(levelOfText('WARN x')).to.equal('warning');
    expect(levelOfText('debug: y')).to.equal('verbose');
    expect(levelOfText('install libgpg-error0:amd64 /var/log/error.log')).to.equal('information');
  });
});
