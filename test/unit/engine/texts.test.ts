import { expect } from 'chai';
import fc from 'fast-check';
import path from 'node:path';
import { repositoryAddress, Repository, secretsOf } from '../../../src/engine/destination.ts';
import type { EngineCode } from '../../../src/engine/engine-error.ts';
import {
  parseBackupLine,
  parseNotRestored,
  parseUnreadable,
  measuredBackup,
  ProgressMeter,
} from '../../../src/engine/process/progress.ts';
import {
  failureText,
  ErrorOutput,
  RetryWatch,
  LineSplitter,
} from '../../../src/engine/process/error-output.ts';
import { type EngineEntry, ExactNames } from '../../../src/engine/process/documents.ts';
import { errorNumberText } from '../../../src/engine/process/messages.ts';
import { BackupObserver } from '../../../src/engine/operations/backup.ts';
import { includePattern, literalPattern, PathList } from '../../../src/engine/operations/paths.ts';
import { maskSecrets } from '../../../src/engine/process/start-engine.ts';
import { capabilitiesOf, isAtLeast, OLDEST_VERSION, parseEngineVersion } from '../../../src/engine/engine.ts';

describe('what restic prints', () => {
  const CODES: [string, EngineCode | undefined][] = [
    ['Fatal: wrong password or no key found', 'WRONG_KEY'],
    [
      'unable to create lock in backend: repository is already locked by PID 12 on vm by root',
      'REPOSITORY_LOCKED',
    ],
    ['repository is already locked exclusively by PID 12 on vm by root (UID 0, GID 0)', 'REPOSITORY_LOCKED'],
    ['Fatal: unable to open config file: stat /r/config: no such file or directory', 'REPOSITORY_MISSING'],
    ['Fatal: repository does not exist: unable to open config file: stat /r/config', 'REPOSITORY_MISSING'],
    [
      'Fatal: unable to open config file: Head "http://u:***@h/config": dial tcp 127.0.0.1:1: connect: connection refused',
      'DESTINATION_UNREACHABLE',
    ],
    [
      'Fatal: repository does not exist: unable to open config file: dial tcp: lookup h: no such host',
      'DESTINATION_UNREACHABLE',
    ],
    [
      'Fatal: unable to open config file: x509: certificate signed by unknown authority',
      'DESTINATION_UNTRUSTED',
    ],
    ['Fatal: unable to save snapshot: unexpected HTTP response (503): 503', 'DESTINATION_UNREACHABLE'],
    ['Fatal: unable to open config file: Stat: The specified bucket does not exist.', 'BUCKET_MISSING'],
    [
      'Fatal: unable to open config file: unexpected HTTP response (401): 401 Unauthorized',
      'DESTINATION_DENIED',
    ],
    ['Fatal: unable to open config file: open /r/config: permission denied', 'DESTINATION_DENIED'],
    ['Fatal: create repository at /r failed: mkdir /r: permission denied', 'DESTINATION_DENIED'],
    ['server response unexpected: 507 Insufficient Storage (507)', 'DESTINATION_FULL'],
    ['Fatal: unable to save snapshot: write /r/tmp: no space left on device', 'DESTINATION_FULL'],
    ['Fatal: create repository at /r failed: config file already exists', 'REPOSITORY_EXISTS'],
    ['Fatal: all target directories/files do not exist', 'SOURCE_UNREADABLE'],
    ['Ignoring "0000": no matching ID found for prefix "0000"', 'SNAPSHOT_MISSING'],
    ['cannot dump file: path "/nope" not found in snapshot', 'PATH_MISSING'],
    ['unknown flag: --foo', 'ENGINE_TOO_OLD'],
    ['Fatal: repository contains errors', 'REPOSITORY_DAMAGED'],
    [
      '{"message_type":"exit_error","code":12,"message":"Fatal: wrong password or no key found"}',
      'WRONG_KEY',
    ],
    ['Fatal: something new', undefined],
  ];
  for (const [text, code] of CODES) {
    it(`means ${code ?? 'nothing that we know'}: ${text}`, () => {
      expect(failureText(text)).to.include({ code });
    });
  }

  it('is no failure if restic tries again, prints its stack, or speaks of one file', () => {
    for (const line of [
      'Load(<data/4f>, 1, 0) returned error, retrying after 552ms: connection refused',
      '\tgithub.com/restic/restic/main.go:12',
      'github.com/restic/restic/internal/backend.Load',
      '{"message_type":"error","error":{"message":"permission denied"},"during":"archival","item":"/quota"}',
      '',
    ]) {
      expect(failureText(line), line).to.equal(undefined);
    }
  });

  it('names unreadable paths in the forms of all versions', () => {
    const seen = (line: string) => parseUnreadable(line);
    expect(seen('{"message_type":"error","error":{},"during":"archival","item":"/a"}')).to.deep.equal({
      path: '/a',
      reason: '',
    });
    expect(
      seen('{"message_type":"error","error":{"Op":"open","Path":"/a","Err":13},"during":"scan","item":"/a"}'),
    ).to.deep.equal({ path: '/a', reason: 'permission denied' });
    expect(
      seen('{"message_type":"error","error":{"message":"open /a: gone"},"during":"scan","item":"/a"}'),
    ).to.deep.equal({ path: '/a', reason: 'open /a: gone' });
    expect(seen('/a b does not exist, skipping')).to.deep.equal({
      path: '/a b',
      reason: 'no such file or directory',
    });
    expect(seen('Fatal: wrong password or no key found')).to.equal(undefined);
    expect(parseNotRestored('ignoring error for /a: b: UtimesNano: no')).to.deep.equal({
      path: '/a',
      reason: 'b: UtimesNano: no',
    });
    expect(
      parseNotRestored('{"message_type":"error","error":{"message":"m"},"during":"restore","item":"/a"}'),
    ).to.deep.equal({ path: '/a', reason: 'm' });
  });

  it('is read without an exception, whatever it is', () => {
    const key = fc.constantFrom(
      'message_type',
      'error',
      'item',
      'message',
      'percent_done',
      'snapshot_id',
      'bytes_done',
      'current_files',
    );
    const value = fc.oneof(fc.constantFrom('status', 'summary', 'error', 'exit_error'), fc.jsonValue());
    const line = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.dictionary(key, value).map((object) => JSON.stringify(object)),
      fc.dictionary(key, value).map((object) => JSON.stringify(object).slice(0, -1)),
    );
    fc.assert(
      fc.property(fc.array(line, { maxLength: 5 }), (lines) => {
        const meter = new ProgressMeter();
        const list = new PathList();
        for (const each of lines) {
          failureText(each);
          parseEngineVersion(each);
          const message = parseBackupLine(each);
          if (message !== undefined && 'status' in message) meter.measure(measuredBackup(message.status), 0);
          for (const found of [parseUnreadable(each), parseNotRestored(each)]) {
            if (found !== undefined) list.add(found);
          }
        }
        expect(list.report().paths.length).to.be.at.most(lines.length * 2);
      }),
      { numRuns: 500 },
    );
  });
});

describe('the list of unreadable paths', () => {
  it('keeps each path once with the reason that is known, and is cut at a thousand', () => {
    const list = new PathList();
    list.add({ path: '/a', reason: '' });
    list.add({ path: '/a', reason: 'denied' });
    expect(list.report()).to.deep.equal({ paths: [{ path: '/a', reason: 'denied' }], count: 1 });
    for (let at = 0; at < 2000; at++) list.add({ path: `/${at}`, reason: 'x'.repeat(5000) });
    list.add({ path: '/1999', reason: 'again' });
    const { paths, count } = list.report();
    expect([paths.length, count, paths.at(-1)?.reason.length]).to.deep.equal([1000, 2001, 300]);
  });
});

describe('the error output of restic', () => {
  const read = (text: string | Buffer) => {
    const seen: { line: string; isCut: boolean }[] = [];
    const output = new ErrorOutput((line, isCut) => seen.push({ line, isCut }) > 0);
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length; at += 5000) output.push(bytes.subarray(at, at + 5000));
    output.end();
    return seen;
  };

  it('is whole if a line names the longest path three times, each byte of it escaped', () => {
    const item = `/${'\u0001'.repeat(4094)}`;
    const line = JSON.stringify({
      message_type: 'error',
      error: { Op: 'lstat', Path: item, Err: 36, message: undefined },
      during: 'archival',
      item,
    });
    expect(line.length).to.be.greaterThan(48_000);
    const [seen] = read(`${line}\n`);
    expect(seen?.isCut).to.equal(false);
    expect(parseUnreadable(seen?.line ?? '')).to.deep.equal({ path: item, reason: 'file name too long' });
    const observed = new BackupObserver(undefined, { retries: new RetryWatch(1000) });
    expect(observed.readError(line.slice(0, 40_000), true)).to.equal(true);
  });

  it('has paths by their bytes, and JSON as characters', () => {
    const [first, second] = read(
      Buffer.concat([
        Buffer.from('ignoring error for /caf\xe9/\\xe9: no\n', 'latin1'),
        Buffer.from(JSON.stringify({ message_type: 'error', item: '/caf\ufffd/\\xe9', error: {} })),
      ]),
    );
    expect(parseNotRestored(first?.line ?? '')).to.deep.equal({ path: '/caf\\xe9/\\x5cxe9', reason: 'no' });
    expect(parseUnreadable(second?.line ?? '')?.path).to.equal('/caf\ufffd/\\x5cxe9');
  });

  it('gives every error number a reason', () => {
    for (const number of [1, 2, 5, 13, 36, 40, 116, 121, 4711]) {
      expect(errorNumberText(number, 'linux')).to.match(/\w{4}/);
    }
    expect([errorNumberText(36, 'linux'), errorNumberText(116, 'linux')]).to.deep.equal([
      'file name too long',
      'stale file handle',
    ]);
    expect([
      errorNumberText(63, 'darwin'),
      errorNumberText(32, 'win32'),
      errorNumberText(5, 'win32'),
    ]).to.deep.equal(['file name too long', 'another program uses the file', 'access is denied']);
  });
});

describe('names that restic cannot print', () => {
  const entry = (path: string, type = 'file'): EngineEntry => ({
    name: path.slice(path.lastIndexOf('/') + 1),
    path,
    type,
    size: undefined,
    mode: undefined,
    mtime: undefined,
  });

  it('are told apart by their order, and what is in folders that look alike as well', async () => {
    const trees: Record<string, string[]> = {
      '': ['s'],
      '/s': ['caf\\xe8', 'caf\\xe9', 'caf\ufffd', 'plain'],
      '/s/caf\\xe8': ['x\\xff'],
      '/s/caf\\xe9': ['x\\xfe'],
    };
    const asked: string[] = [];
    const names = new ExactNames(async (folder) => {
      asked.push(folder);
      return trees[folder] ?? [];
    });
    const printed = [
      '/s',
      '/s/caf\ufffd',
      '/s/caf\ufffd/x\ufffd',
      '/s/caf\ufffd',
      '/s/caf\ufffd/x\ufffd',
      '/s/caf\ufffd',
      '/s/plain',
    ];
    const exact: string[] = [];
    for (const [at, path] of printed.entries()) {
      exact.push((await names.of(entry(path, [0, 1, 3].includes(at) ? 'dir' : 'file'))).path);
    }
    expect(exact).to.deep.equal([
      '/s',
      '/s/caf\\xe8',
      '/s/caf\\xe8/x\\xff',
      '/s/caf\\xe9',
      '/s/caf\\xe9/x\\xfe',
      '/s/caf\ufffd',
      '/s/plain',
    ]);
    expect(asked).to.deep.equal(['/s', '/s/caf\\xe8', '/s/caf\\xe9']);
  });

  it('are matched by a pattern with U+FFFD in a class, and others by their characters', () => {
    expect(includePattern('/caf\\xe9/[a]\\x5cxe9')).to.equal('/caf[\ufffd]/[[]a]\\\\xe9');
    expect(includePattern('/caf\ufffd')).to.equal('/caf\ufffd');
  });
});

describe('lines of output', () => {
  it('are the same however the bytes are cut, never longer than allowed, and say where they were cut', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom('a', 'é', '\r', '\n') }),
        fc.array(fc.nat(50)),
        fc.integer({ min: 1, max: 30 }),
        (text, cuts, max) => {
          const splitter = new LineSplitter(max, (line) => line.toString('latin1'));
          const bytes = Buffer.from(text);
          const lines = [];
          let from = 0;
          for (const cut of cuts) {
            lines.push(...splitter.push(bytes.subarray(from, from + cut)));
            from += cut;
          }
          lines.push(...splitter.push(bytes.subarray(from)), ...splitter.end());
          const whole = bytes.toString('latin1').split('\n');
          if (whole.at(-1) === '') whole.pop();
          expect(lines).to.deep.equal(
            whole.map((line) => ({
              text: line.slice(0, max).replace(/\r$/, ''),
              isCut: line.length > max,
            })),
          );
        },
      ),
    );
  });
});

describe('progress', () => {
  const measured = fc.record({
    bytes: fc.nat(),
    files: fc.nat(),
    totalBytes: fc.option(fc.nat()),
    totalFiles: fc.option(fc.nat()),
  });

  it('stays between 0 and 100 percent and never goes back', () => {
    fc.assert(
      fc.property(fc.array(measured, { minLength: 1 }), (all) => {
        const meter = new ProgressMeter();
        const percents = all.flatMap((each, at) => meter.measure(each, at * 500).percent ?? []);
        expect(percents).to.deep.equal([...percents].sort((a, b) => a - b));
        expect(percents.every((each) => each >= 0 && each <= 100)).to.equal(true);
      }),
    );
  });

  it('knows the rate of the last seconds and the time that is left', () => {
    const meter = new ProgressMeter();
    const at = (seconds: number, bytes: number) =>
      meter.measure({ bytes, files: 1, totalBytes: 10_000, totalFiles: 2 }, seconds * 1000);
    expect(at(0, 0)).to.include({ phase: 'scanning', rate: null });
    expect(at(2, 2000)).to.include({ phase: 'transferring', percent: 20, rate: 1000, etaSeconds: 8 });
    // Eleven seconds without a byte: the first seconds do not count any more.
    at(8, 2000);
    expect(at(19, 2000).rate).to.equal(0);
    expect(
      meter.measure({ bytes: 10_000, files: 2, totalBytes: 10_000, totalFiles: 2 }, 20_000).phase,
    ).to.equal('finishing');
  });
});

describe('versions of restic', () => {
  it('are read from what it prints', () => {
    expect(parseEngineVersion('restic 0.14.0 compiled with go1.19.8 on linux/amd64')).to.deep.equal(
      OLDEST_VERSION,
    );
    expect(parseEngineVersion('restic 0.18.1-dev (compiled manually)')).to.include({ minor: 18, patch: 1 });
    expect(parseEngineVersion('rustic 0.9.0')).to.equal(undefined);
    expect(parseEngineVersion('')).to.equal(undefined);
  });

  it('have what came with them, and keep it', () => {
    const version = fc.record({ major: fc.nat(2), minor: fc.nat(30), patch: fc.nat(3) });
    fc.assert(
      fc.property(version, version, (a, b) => {
        const [older, newer] = isAtLeast(a, b) ? [b, a] : [a, b];
        for (const [name, has] of Object.entries(capabilitiesOf(older))) {
          if (has) expect(Object.entries(capabilitiesOf(newer))).to.deep.include([name, true]);
        }
      }),
    );
    expect(Object.values(capabilitiesOf(OLDEST_VERSION))).not.to.include(true);
    expect(Object.values(capabilitiesOf({ major: 0, minor: 18, patch: 0 }))).not.to.include(false);
  });
});

describe('a literal pattern', () => {
  it('matches its own path only, by the rules of Go as Node has them', () => {
    const name = fc.string({
      unit: fc.constantFrom('a', 'b', '*', '?', '[', ']', '!', '^', '-', '$', '{', '}'),
      minLength: 1,
      maxLength: 6,
    });
    fc.assert(
      fc.property(name, name, (one, other) => {
        const pattern = goPattern(literalPattern(`/${one}`));
        expect(pattern.test(`/${one}`)).to.equal(true);
        expect(pattern.test(`/${other}`)).to.equal(one === other);
      }),
    );
    expect(literalPattern('/a\\*')).to.equal('/a\\\\[*]');
  });
});

/** Go's filepath.Match for patterns with classes of one character, as a regular expression. */
function goPattern(pattern: string): RegExp {
  const parts = pattern.split(/(\[[*?[]\])/).map((part) => {
    const inClass = /^\[([*?[])\]$/.exec(part)?.[1];
    if (inClass !== undefined) return `\\${inClass}`;
    return part
      .replace(/[$()+.^{|}\]-]/g, '\\$&')
      .replaceAll('*', '[^/]*')
      .replaceAll('?', '[^/]');
  });
  return new RegExp(`^${parts.join('')}$`);
}

describe('secrets of a repository', () => {
  const secret = fc.string({
    unit: fc.constantFrom(...Array.from('abcXYZ019!@#$%&/:?+=~')),
    minLength: 6,
    maxLength: 30,
  });

  it('do not appear in a masked text that has them', () => {
    fc.assert(
      fc.property(secret, secret, (password, restPassword) => {
        const repository = Repository.parse({
          password,
          destination: {
            type: 'rest',
            url: 'https://backup.example/r/',
            user: 'job',
            password: restPassword,
          },
        });
        const address = repositoryAddress(repository.destination);
        const masked = maskSecrets(
          `Fatal: ${address} with ${password} at https://u:${restPassword}@h/`,
          secretsOf(repository),
        );
        expect(masked).not.to.include(password);
        expect(masked).not.to.include(restPassword);
        expect(masked).not.to.include(encodeURIComponent(restPassword));
        const url = new URL(address.slice('rest:'.length));
        expect(decodeURIComponent(url.password)).to.equal(restPassword);
        expect(url.host).to.equal('backup.example');
      }),
    );
  });

  it('cannot be anything that reads differently in a file of lines', () => {
    const parse = (password: string) =>
      Repository.safeParse({ password, destination: { type: 'local', path: path.resolve('/r') } }).success;
    expect(parse('fine')).to.equal(true);
    for (const password of ['', ' a', 'a ', 'a\nb', 'a\0', 'ü', 'a'.repeat(1001)]) {
      expect(parse(password), password).to.equal(false);
    }
    for (const url of ['https://u:p@h/', 'file:///etc', 'https://h/?a', 'h', 'https://h/#x']) {
      expect(
        Repository.safeParse({ password: 'x', destination: { type: 'rest', url } }).success,
        url,
      ).to.equal(false);
    }
    const s3 = {
      type: 's3',
      endpoint: 'https://s3.example',
      bucket: 'bucket',
      accessKeyId: 'a',
      secretAccessKey: 'b',
    };
    expect(Repository.safeParse({ password: 'x', destination: s3 }).success).to.equal(true);
    for (const wrong of [
      { bucket: '../b' },
      { prefix: '/a' },
      { secretAccessKey: 'a\nb' },
      { region: 'a=b' },
    ]) {
      expect(Repository.safeParse({ password: 'x', destination: { ...s3, ...wrong } }).success).to.equal(
        false,
      );
    }
  });
});
