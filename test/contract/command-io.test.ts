import { expect } from 'chai';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

const CLI = path.join(import.meta.dirname, '../../src/cli');
/** Entries of programs, and the parts of the demo and of the build, which run as processes of their own only. */
const PROCESSES = /^(io|muster|rotate-secrets|demo|build-dashboard|write-docs|child-program)\.ts$|^demo\//;
const USES_PROCESS =
  /\bprocess\.(stdin|stdout|stderr|env|argv|exit|exitCode|cwd|chdir|on|once|off)\b|\bconsole\.|\breadConfig\(\)/;

const usesOf = (file: string, text: string): string[] =>
  text
    .split('\n')
    .flatMap((line, at) => (USES_PROCESS.test(line) ? [`src/cli/${file}:${at + 1}: ${line.trim()}`] : []));

describe('commands of muster', () => {
  it('use the process through their `CommandIo` only, so that they run in any process', () => {
    const files = readdirSync(CLI, { recursive: true, encoding: 'utf8' })
      .map((file) => file.split(path.sep).join('/'))
      .filter((file) => file.endsWith('.ts') && !PROCESSES.test(file));
    expect(files).to.include.members(['run.ts', 'audit/verify-bundle.ts', 'remote/login.ts']);
    expect(files.flatMap((file) => usesOf(file, readFileSync(path.join(CLI, file), 'utf8')))).to.deep.equal(
      [],
    );
  });

  it('are found out if they do not', () => {
    for (const line of [
      `process.stdout.write('a');`,
      'process.exitCode = 1;',
      `process.on('SIGINT', end);`,
      'const config = readConfig();',
      `console.log('a');`,
    ]) {
      expect(usesOf('a.ts', `\n${line}`)).to.deep.equal([`src/cli/a.ts:2: ${line}`]);
    }
    expect(usesOf('a.ts', 'const draft = `${file}.${process.pid}.part`;')).to.deep.equal([]);
  });
});
