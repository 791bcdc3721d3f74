import { clock, HOUR_MS, MINUTE_MS } from '../../clock.ts';
import { AgentErrorCode, type OsType, type ServiceAction, type StartMode } from '../../protocol/index.ts';
import type { Service, ServiceList } from '../capabilities/services/service-reader.ts';
import type { Services } from '../capabilities/services/service-control.ts';
import { AgentError } from '../core/agent-error.ts';
import { mix, osOf } from './synthetic-machine.ts';

/** The services of a simulated machine. They depend on its number and the time only. */

type Entry = readonly [name: string, displayName: string, startMode: StartMode, isRunning: boolean];

/** The first of each system is the one that stops on a machine with an unreliable service. */
const SERVICES: Readonly<Record<OsType, readonly [Entry, ...Entry[]]>> = {
  windows: [
    ['Spooler', 'Print Spooler', 'automatic', true],
    ['BITS', 'Background Intelligent Transfer Service', 'manual', false],
    ['Dhcp', 'DHCP Client', 'automatic', true],
    ['Dnscache', 'DNS Client', 'automatic', true],
    ['EventLog', 'Windows Event Log', 'automatic', true],
    ['LanmanServer', 'Server', 'automatic', true],
    ['LanmanWorkstation', 'Workstation', 'automatic', true],
    ['RemoteRegistry', 'Remote Registry', 'disabled', false],
    ['Schedule', 'Task Scheduler', 'automatic', true],
    ['TermService', 'Remote Desktop Services', 'manual', true],
    ['VSS', 'Volume Shadow Copy', 'manual', false],
    ['W32Time', 'Windows Time', 'manual', true],
    ['WinDefend', 'Microsoft Defender Antivirus Service', 'automatic', true],
    ['WSearch', 'Windows Search', 'automatic', true],
    ['wuauserv', 'Windows Update', 'manual', false],
  ],
  linux: [
    ['nginx', 'A high performance web server and a reverse proxy server', 'automatic', true],
    ['cron', 'Regular background program processing daemon', 'automatic', true],
    ['dbus', 'D-Bus System Message Bus', 'manual', true],
    ['fstrim', 'Discard unused blocks on filesystems from /etc/fstab', 'manual', false],
    ['postgresql', 'PostgreSQL RDBMS', 'automatic', true],
    ['rsyslog', 'System Logging Service', 'automatic', true],
    ['ssh', 'OpenBSD Secure Shell server', 'automatic', true],
    ['systemd-journald', 'Journal Service', 'manual', true],
    ['systemd-timesyncd', 'Network Time Synchronization', 'automatic', true],
    ['unattended-upgrades', 'Unattended Upgrades Shutdown', 'automatic', true],
  ],
  macos: [
    ['org.cups.cupsd', '', 'automatic', true],
    ['com.apple.backupd', '', 'automatic', false],
    ['com.apple.mDNSResponder.reloaded', '', 'automatic', true],
    ['com.apple.softwareupdated', '', 'automatic', true],
    ['com.apple.timed', '', 'automatic', true],
    ['com.openssh.sshd', '', 'manual', false],
  ],
};

const MANAGERS = { windows: 'windows', linux: 'systemd', macos: 'launchd' } as const;

const STOPPED_MS = 8 * MINUTE_MS;

export function syntheticServices(
  index: number,
  at: number,
  { hasUnreliableService }: { hasUnreliableService: boolean },
): ServiceList {
  const os = osOf(index);
  const services = SERVICES[os].map(([name, displayName, startMode, isRunning], place): Service => {
    const stops = place === 0 && hasUnreliableService && isStopped(index, at);
    return {
      name,
      ...(os === 'macos' ? {} : { displayName, startMode }),
      state: stops ? (os === 'linux' ? 'failed' : 'stopped') : isRunning ? 'running' : 'stopped',
    };
  });
  return { manager: MANAGERS[os], services };
}

/** A stretch of each hour, at another time on each machine. */
const isStopped = (index: number, at: number) => (at + (mix(index, 61) % HOUR_MS)) % HOUR_MS < STOPPED_MS;

const ACTS_MS = 600;

/** The services of a simulated machine, with what people did to them since its start. */
export class SyntheticServices implements Services {
  readonly #read: () => ServiceList;
  readonly #onChanged: (restarted?: string) => void;
  readonly #changed = new Map<string, 'running' | 'stopped'>();

  constructor(parts: { read: () => ServiceList; onChanged: (restarted?: string) => void }) {
    this.#read = parts.read;
    this.#onChanged = parts.onChanged;
  }

  /** What the machine reports. */
  now(): ServiceList {
    const { manager, services } = this.#read();
    return {
      manager,
      services: services.map((service) => ({
        ...service,
        state: this.#changed.get(service.name) ?? service.state,
      })),
    };
  }

  async list() {
    const { manager, services } = this.now();
    const sorted = services.toSorted((a, b) => (a.name < b.name ? -1 : 1));
    return { manager, total: sorted.length, services: sorted };
  }

  async control({ name, action }: { name: string; action: ServiceAction }) {
    const service = this.now().services.find((one) => one.name === name);
    if (service === undefined) {
      throw new AgentError(AgentErrorCode.serviceNotFound, `This device has no service named '${name}'.`);
    }
    if (service.startMode === 'disabled' && action !== 'stop') {
      throw new AgentError(
        AgentErrorCode.failed,
        'The service cannot be started, because it is disabled on this machine.',
      );
    }
    await clock.sleep(ACTS_MS);
    const after = action === 'stop' ? ('stopped' as const) : ('running' as const);
    this.#changed.set(name, after);
    this.#onChanged(action === 'restart' ? name : undefined);
    return { before: service.state, after };
  }
}
