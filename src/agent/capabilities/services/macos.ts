import type { Service, ServiceReader } from './service-reader.ts';

const PROGRAM_MS = 20_000;

/** The services of launchd in the domain of the agent's user: those of the system, because the agent is a service itself. */
export const MACOS_SERVICES: ServiceReader = {
  manager: 'launchd',
  async states(sources) {
    const output = await sources.output('launchctl', ['list'], PROGRAM_MS);
    return output === undefined ? undefined : parseLaunchctl(output);
  },
};

/** Programs that people have opened: each has a number in its name. */
const OPENED = /^application\./;
/** By these signals, launchd and the system end services that are not needed. */
const ENDED_BY = new Set([-9, -15]);

/** Lines such as `312	0	com.apple.cron`: the process, the code or the signal with which it ended last, the label. */
export function parseLaunchctl(output: string): Service[] {
  return output.split('\n').flatMap((line): Service[] => {
    const [, pid, code, label = ''] = /^(\d+|-)\t(-?\d+|-)\t(\S.*)$/.exec(line.trimEnd()) ?? [];
    if (pid === undefined || OPENED.test(label)) return [];
    const ended = code === '-' ? 0 : Number(code);
    const state = pid !== '-' ? 'running' : ended === 0 || ENDED_BY.has(ended) ? 'stopped' : 'failed';
    return [{ name: label, state }];
  });
}
