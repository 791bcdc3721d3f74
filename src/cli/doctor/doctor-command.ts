import { type Command, InvalidArgumentError } from 'commander';
import { z } from 'zod';
import { parseEmail } from '../email-option.ts';
import type { CommandLine } from '../io.ts';
import type { DoctorOptions } from './run-doctor.ts';

/** `muster doctor`, loaded on demand. */
export function addDoctor(program: Command, { io, action }: CommandLine): void {
  program
    .command('doctor')
    .description(
      'check this installation and say how to correct what is wrong; nothing is changed (exit 0: sound, 1: something failed)',
    )
    .option(
      '--public-url <url>',
      'the address under which people reach the server (default: PUBLIC_URL)',
      parseUrl,
    )
    .option(
      '--send-mail-to <address>',
      'send a test mail; without it the mail server is only greeted',
      parseEmail,
    )
    .option('--no-outside', 'leave out what is checked through the public address')
    .option('--json', 'print the results as JSON')
    .exitOverride()
    .action(
      action(async (options: DoctorOptions & { json?: true }) => {
        const { runDoctor } = await import('./run-doctor.ts');
        const { ok, results, text } = await runDoctor(io, options);
        io.stdout.write(options.json === true ? `${JSON.stringify({ ok, checks: results })}\n` : `${text}\n`);
        return ok ? 0 : 1;
      }),
    );
}

function parseUrl(text: string): string {
  const parsed = z.url({ protocol: /^https?$/ }).safeParse(text);
  if (!parsed.success) throw new InvalidArgumentError('Must be a URL such as https://rmm.example.com.');
  return parsed.data.replace(/\/+$/, '');
}
