import type { ServiceState, StartMode } from '../../../protocol/index.ts';
import type { Service, ServiceDetails, ServiceReader } from './service-reader.ts';

const PROGRAM_MS = 20_000;
/** Without colors, headings and marks; old systems have no output in JSON. */
const PLAIN = ['--type=service', '--all', '--full', '--no-legend', '--no-pager', '--plain'];

/** The services of systemd. Other service managers of Linux have no states that could be read alike. */
export const LINUX_SERVICES: ServiceReader = {
  manager: 'systemd',
  async states(sources) {
    // The folder by which programs recognize a system that systemd has started: the program alone is in many containers.
    if (!(await sources.written('/run/systemd')).has('system')) return undefined;
    const output = await sources.output('systemctl', ['list-units', ...PLAIN], PROGRAM_MS);
    return output === undefined ? undefined : parseUnits(output);
  },
  async details(sources) {
    const output = await sources.output('systemctl', ['list-unit-files', ...PLAIN], PROGRAM_MS);
    return parseUnitFiles(output ?? '');
  },
};

/** Units of single commands, such as `run-u12.service` of `systemd-run`. */
const TRANSIENT = /^run-[a-z0-9]+$/;

const STATES: Readonly<Record<string, ServiceState>> = {
  // Also of one that does something at the start of the machine, and has done it.
  active: 'running',
  reloading: 'running',
  refreshing: 'running',
  inactive: 'stopped',
  maintenance: 'stopped',
  failed: 'failed',
  activating: 'starting',
  deactivating: 'stopping',
};

/**
 * Lines such as `nginx.service loaded active running A high performance web server`. Units that others only mention are not
 * on the machine, and are left out. Old versions mark units that have failed.
 */
export function parseUnits(output: string): Service[] {
  return output.split('\n').flatMap((line): Service[] => {
    const [, unit = '', load, active = '', sub = '', description = ''] =
      /^\W*?(\S+)\.service\s+(\S+)\s+(\S+)\s+(\S+)\s*(.*)$/.exec(line) ?? [];
    if (unit === '' || load === 'not-found' || TRANSIENT.test(unit)) return [];
    // It has ended, and systemd starts it again soon.
    const state = sub.startsWith('auto-restart') ? 'failed' : STATES[active];
    if (state === undefined) return [];
    const displayName = description.trim();
    const isNamed = displayName !== '' && displayName !== `${unit}.service`;
    return [{ name: unit, ...(isNamed ? { displayName } : {}), state }];
  });
}

/** What is disabled can still be started by another unit or a person; only what is masked cannot. */
const START_MODES: Readonly<Record<string, StartMode>> = {
  enabled: 'automatic',
  'enabled-runtime': 'automatic',
  generated: 'automatic',
  static: 'manual',
  indirect: 'manual',
  disabled: 'manual',
  linked: 'manual',
  'linked-runtime': 'manual',
  transient: 'manual',
  masked: 'disabled',
  'masked-runtime': 'disabled',
};

/** Lines such as `nginx.service enabled enabled`, in old versions without the last word. */
export function parseUnitFiles(output: string): ServiceDetails {
  return new Map(
    output.split('\n').flatMap((line) => {
      const [, unit, state = ''] = /^(\S+)\.service\s+(\S+)/.exec(line) ?? [];
      const startMode = START_MODES[state];
      return unit === undefined || startMode === undefined ? [] : [[unit, { startMode }] as const];
    }),
  );
}
