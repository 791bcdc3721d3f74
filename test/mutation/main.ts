import type { LogLevel, MutantResult } from '@stryker-mutator/api/core';
import { Stryker } from '@stryker-mutator/core';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { useTemporaryFolder } from '../support/temporary-folder.ts';
import { startTestPostgres, TEST_POSTGRES_VARIABLE } from '../support/test-postgres.ts';
import { MACHINES, type Machine, testFile } from './machines.ts';
import { type TriedChange, tryGuards } from './sql-run.ts';

/**
 * Mutation testing: changes the code of a machine in one place at a time (a condition reversed, a statement left out) and
 * runs the tests near it. A change that no test notices is behaviour that no test proves.
 *
 *     npm run test:mutation                               all machines, which takes hours
 *     npm run test:mutation -- device-actor schedules     these
 *     npm run test:mutation -- --files hub/device/mailbox.ts device-actor   of a machine only some files
 *     npm run test:mutation -- --static device-actor      also constants of modules: a process for each change
 *     npm run test:mutation -- --concurrency 2            as many processes at once; one is the default
 *     npm run test:mutation -- --sql --sample 40 ledger   instead changes SQL, which Stryker takes for text, in a copy of
 *                                                         the project: 40 changes of each machine (sql-guards.ts)
 */
const ROOT = path.join(import.meta.dirname, '../..');

const { values: options, positionals: names } = parseArgs({
  allowPositionals: true,
  options: {
    files: { type: 'string', multiple: true },
    static: { type: 'boolean', default: false },
    concurrency: { type: 'string', default: '1' },
    sql: { type: 'boolean', default: false },
    sample: { type: 'string', default: '1000' },
  },
});

function chosenMachines(): readonly Machine[] {
  // Without a database no statement is run.
  const all = options.sql ? MACHINES.filter(({ usesDatabase }) => usesDatabase) : MACHINES;
  const unknown = names.filter((name) => !MACHINES.some((machine) => machine.name === name));
  if (unknown.length > 0) {
    const known = MACHINES.map(({ name }) => name).join(', ');
    throw new Error(`There is no machine ${unknown.join(', ')}. The machines are ${known}.`);
  }
  return names.length === 0 ? all : all.filter(({ name }) => names.includes(name));
}

const chosenFiles = (machine: Machine) =>
  machine.mutate.filter((file) => options.files?.includes(file) ?? true);

async function mutate(machine: Machine, temporary: string): Promise<MutantResult[]> {
  const stryker = new Stryker({
    mutate: chosenFiles(machine),
    testRunner: 'mocha-12',
    testRunnerNodeArgs: ['--import=tsx'],
    plugins: [path.join(import.meta.dirname, 'plugins.ts')],
    ignorers: ['texts-for-people'],
    testFilesOfMachine: machine.tests.map(testFile),
    coverageAnalysis: 'perTest',
    ignoreStatic: !options.static,
    concurrency: Number(options.concurrency),
    // The copy of the project has only what the tests read, and is outside of the project.
    tempDirName: path.join(temporary, 'mutation'),
    cleanTempDir: 'always',
    ignorePatterns: [
      '/*',
      '!/src',
      '!/test',
      '!/migrations',
      '!/package.json',
      '!/.mocharc.json',
      '/src/dashboard',
    ],
    reporters: ['progress-append-only'],
    warnings: false,
    allowConsoleColors: false,
    // oxlint-disable-next-line typescript/no-unsafe-enum-assignment -- the enum exists for the compiler only
    logLevel: 'error' as LogLevel,
    thresholds: { high: 85, low: 85, break: null },
  });
  return stryker.runMutationTest();
}

function survivorLines(mutants: readonly MutantResult[]): string[] {
  return mutants
    .filter(({ status }) => status === 'Survived' || status === 'NoCoverage')
    .map(({ fileName, location: { start, end }, replacement, status }) => {
      const file = path.relative(ROOT, fileName);
      const lines = readFileSync(path.join(ROOT, file), 'utf8')
        .split('\n')
        .slice(start.line - 1, end.line);
      const before = lines
        .map((line, i) =>
          line.slice(i === 0 ? start.column - 1 : 0, i === lines.length - 1 ? end.column - 1 : undefined),
        )
        .join(' ');
      const note = status === 'NoCoverage' ? ' (no test runs this)' : '';
      return `  ${file}:${start.line}:${start.column} ${shortened(before)} -> ${shortened(replacement)}${note}`;
    });
}

async function mutateSql(machine: Machine, temporary: string): Promise<TriedChange[]> {
  return tryGuards(machine, {
    temporary,
    files: chosenFiles(machine),
    sample: Number(options.sample),
    // A run may take hours, and may be ended early.
    tell: ({ status, fileName, line, before, replacement }) =>
      process.stdout.write(
        `${status.padEnd(12)} ${fileName}:${line} ${shortened(before)} -> ${shortened(replacement)}\n`,
      ),
  });
}

const shortened = (code: string) => {
  const line = code.replaceAll(/\s+/g, ' ').trim();
  return line.length > 90 ? `${line.slice(0, 87)}...` : line;
};

const COLUMNS = ['machine', 'mutants', 'killed', 'timed out', 'survived', 'no test', 'score', 'minutes'];

function row(name: string, mutants: readonly Pick<MutantResult, 'status'>[], ms: number): string[] {
  const count = (status: MutantResult['status']) =>
    mutants.filter((mutant) => mutant.status === status).length;
  const found = count('Killed') + count('Timeout');
  const missed = count('Survived') + count('NoCoverage');
  const score = found + missed === 0 ? '-' : `${((100 * found) / (found + missed)).toFixed(1)} %`;
  return [
    name,
    ...[found + missed, count('Killed'), count('Timeout'), count('Survived'), count('NoCoverage')].map(
      String,
    ),
    score,
    (ms / 60_000).toFixed(1),
  ];
}

function print(rows: readonly string[][]): void {
  const widths = COLUMNS.map((_, i) => Math.max(...rows.map((cells) => cells[i]?.length ?? 0)));
  for (const cells of rows) {
    process.stdout.write(`${cells.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join('  ')}\n`);
  }
}

const machines = chosenMachines();
const temporary = useTemporaryFolder();
const postgres = machines.some(({ usesDatabase }) => usesDatabase) ? await startTestPostgres() : undefined;
if (postgres !== undefined) process.env[TEST_POSTGRES_VARIABLE] = postgres.ownerUrl;
const rows = [COLUMNS];
try {
  for (const machine of machines) {
    const begun = performance.now();
    if (options.sql) {
      rows.push(row(machine.name, await mutateSql(machine, temporary), performance.now() - begun));
      continue;
    }
    const mutants = await mutate(machine, temporary);
    process.stdout.write(
      `${machine.name}: changes that no test noticed\n${survivorLines(mutants).join('\n')}\n`,
    );
    rows.push(row(machine.name, mutants, performance.now() - begun));
  }
} finally {
  await postgres?.stop();
  print(rows);
}
