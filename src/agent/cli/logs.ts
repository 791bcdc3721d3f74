import { type Command, InvalidArgumentError, Option } from 'commander';
import { clock } from '../../clock.ts';
import { DiagnosticLevel } from '../../protocol/index.ts';
import { printable } from '../core/plain-text.ts';
import { logFolder, type LogLine } from '../os/diagnostics/log-files.ts';
import { LogReader } from '../os/diagnostics/log-reader.ts';
import { defaultDataDir } from '../os/installation/data-folder.ts';

const POLL_MS = 250;
const MESSAGE_MAX = 8000;

interface Options {
  dataDir: string;
  follow: boolean;
  level: DiagnosticLevel;
  component?: string[];
  lines: number;
  json: boolean;
}

export function addLogs(program: Command): void {
  program
    .command('logs')
    .description('show what the agent and its watchdog have noted about themselves, the oldest line first')
    .option('-f, --follow', 'go on with new lines, until Ctrl+C', false)
    .addOption(
      new Option('--level <level>', 'lines of this level and above')
        .choices(DiagnosticLevel.options)
        .default('debug'),
    )
    .option(
      '--component <names>',
      'lines of these parts only, separated by commas: watchdog, agent, connection, shipping',
      (text) => text.split(','),
    )
    .option('-n, --lines <count>', 'show so many lines of the past', count, 100)
    .option('--data-dir <folder>', 'folder of the agent', defaultDataDir())
    .option('--json', 'print one JSON object per line', false)
    .action(async (options: Options) => {
      endWithReader();
      const reader = new LogReader(options.dataDir);
      const past = (await reader.next()).filter((line) => fits(line, options));
      if (past.length === 0) console.error(`${logFolder(options.dataDir)} has no such lines.`);
      for (const line of past.slice(Math.max(0, past.length - options.lines))) print(line, options.json);
      while (options.follow) {
        await clock.sleep(POLL_MS);
        for (const line of await reader.next()) if (fits(line, options)) print(line, options.json);
      }
    });
}

function fits(line: LogLine, { level, component }: Options): boolean {
  const rank = (each: DiagnosticLevel) => DiagnosticLevel.options.indexOf(each);
  return rank(line.level) >= rank(level) && component?.includes(line.component) !== false;
}

function print(line: LogLine, json: boolean): void {
  if (json) return console.log(JSON.stringify(line));
  const { timestamp, level, component, message } = line;
  console.log(printable(`${timestamp}  ${level.padEnd(5)}  ${component}: ${message}`, MESSAGE_MAX));
}

function count(text: string): number {
  if (/^\d{1,6}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be a whole number, at most 999999.');
}

/** Where the output goes to a program that has read enough, such as `head`, this one ends quietly. */
function endWithReader(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    process.exit(0);
  });
}
