import { execFile } from 'node:child_process';
import { clock } from '../../../clock.ts';
import {
  AgentErrorCode,
  type LiveService,
  type LiveServiceSummary,
  SERVICE_NAME_MAX,
  type ServiceAction,
  type ServiceChange,
  type ServiceManager,
  ServiceName,
  type ServiceState,
  SERVICES_MAX,
  shortened,
} from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { firstCharacters, printable } from '../../core/plain-text.ts';
import { findProgram } from '../../os/child-process.ts';
import { machineSources, type Sources } from '../../os/machine-sources.ts';
import { JOB_LABEL, UNIT_NAME } from '../../os/service-definitions.ts';
import type { LiveHandlers } from '../../work/live-runner.ts';
import type { Service, ServiceList } from './service-reader.ts';

/** The services of a machine, as live queries read and change them. A port, for simulated machines. */
export interface Services {
  list(): Promise<LiveServiceSummary & { services: readonly LiveService[] }>;
  /** @param signal  aborted when the time for the answer is over; what has begun goes on */
  control(order: { name: string; action: ServiceAction }, signal: AbortSignal): Promise<ServiceChange>;
}

export function serviceHandlers(services: Services): LiveHandlers {
  return {
    'services.list': async (_payload, { row }) => {
      const { services: listed, ...summary } = await services.list();
      for (const one of listed) await row(one);
      return summary;
    },
    'services.control': (order, { signal, timeUp }) =>
      services.control(order, AbortSignal.any([signal, timeUp])),
  };
}

/** Runs a program with these arguments, without a shell. Never rejects for a program that fails. */
export type RunProgram = (
  program: string,
  args: readonly string[],
) => Promise<{ code: number; said: string }>;

/** For so long a service manager may take to answer. Its work goes on if the program is stopped. */
const PROGRAM_MS = 20_000;
const POLL_MS = 500;
/** For so long the agent waits for a service of Windows or macOS to be in its new state. */
const SETTLE_MS = 10_000;
const MESSAGE_MAX = 1000;

interface Parts {
  /** Reads all services with their names as the service manager writes them. */
  read: () => Promise<ServiceList>;
  /** Called after an action, so that the server is told of the change. */
  onChanged: (restarted?: string) => void;
  run?: RunProgram;
  /** The services that the agent runs in, besides the one that its installation makes. */
  ownServices?: () => Promise<readonly string[]>;
  /** For tests: how long a state is waited for. */
  settleMs?: number;
}

/** The services of this machine, by the readers that report them. */
export class ServiceControl implements Services {
  readonly #parts: Parts & { run: RunProgram };
  readonly #busy = new Set<string>();

  constructor(parts: Parts) {
    this.#parts = { run: runProgram, ...parts };
  }

  get #settleMs(): number {
    return this.#parts.settleMs ?? SETTLE_MS;
  }

  async list(): Promise<LiveServiceSummary & { services: readonly LiveService[] }> {
    const { manager, services } = await this.#parts.read();
    const own = await this.#ownServices();
    const listed = services
      .map((service) => shown(service, own))
      .filter(({ name }) => name !== '')
      .toSorted((a, b) => (a.name < b.name ? -1 : 1));
    return { manager, total: listed.length, services: listed.slice(0, SERVICES_MAX) };
  }

  async control(
    { name, action }: { name: string; action: ServiceAction },
    signal: AbortSignal,
  ): Promise<ServiceChange> {
    if (this.#busy.has(name)) {
      throw new AgentError(AgentErrorCode.busy, 'Another action on this service has not ended yet.');
    }
    this.#busy.add(name);
    try {
      return await this.#change(name, action, signal);
    } finally {
      this.#busy.delete(name);
    }
  }

  async #change(shownName: string, action: ServiceAction, signal: AbortSignal): Promise<ServiceChange> {
    const { manager, services } = await this.#parts.read();
    // Only what the machine lists reaches a program, and by the name that the machine wrote.
    const service = named(services, shownName);
    if (service === undefined || !isPlainName(service.name)) {
      throw new AgentError(
        AgentErrorCode.serviceNotFound,
        `This device has no service named '${shortened(printable(shownName), 100)}'.`,
      );
    }
    const { name, state: before } = service;
    if (action !== 'start' && (await this.#ownServices()).has(name)) {
      throw new AgentError(
        AgentErrorCode.serviceProtected,
        'This is the service of the agent, which could not report the end of the action.',
      );
    }
    // A machine that was asleep must not do now what a person wanted then.
    if (signal.aborted) throw new AgentError(AgentErrorCode.timedOut, 'The request came too late.');
    try {
      await this.#run(manager, name, action);
      return { before, after: await this.#settled(manager, name, action, signal) };
    } finally {
      this.#parts.onChanged(action === 'restart' ? nameShown(name) : undefined);
    }
  }

  async #run(manager: ServiceManager, name: string, action: ServiceAction): Promise<void> {
    switch (manager) {
      case 'systemd':
        return this.#program('systemctl', ['--no-ask-password', action, '--', `${name}.service`]);
      case 'windows':
        if (action !== 'restart') return this.#program('sc', [action, name]);
        if (!hasStopped(await this.#stateOf(name))) {
          await this.#program('sc', ['stop', name]);
          // Windows has refused if other services depend on it.
          const state = await this.#until(name, hasStopped);
          if (!hasStopped(state)) {
            throw new AgentError(
              AgentErrorCode.failed,
              `The service has not stopped within ${Math.round(this.#settleMs / 1000)} s, and was not started again.`,
            );
          }
        }
        return this.#program('sc', ['start', name]);
      case 'launchd': {
        const job = `system/${name}`;
        if (action === 'stop') return this.#program('launchctl', ['kill', 'SIGTERM', job]);
        return this.#program('launchctl', ['kickstart', ...(action === 'restart' ? ['-k'] : []), job]);
      }
      case 'none':
        throw new AgentError(AgentErrorCode.serviceNotFound, 'This device has no service manager.');
      default:
        return manager satisfies never;
    }
  }

  async #program(program: string, args: readonly string[]): Promise<void> {
    const { code, said } = await this.#parts.run(program, args);
    if (code === 0) return;
    throw new AgentError(
      AgentErrorCode.failed,
      said === '' ? `${program} ended with ${code} and said nothing.` : firstCharacters(said, MESSAGE_MAX),
    );
  }

  /** systemd answers when it is done. The others are watched until the service is in the state that was wanted. */
  async #settled(
    manager: ServiceManager,
    name: string,
    action: ServiceAction,
    signal: AbortSignal,
  ): Promise<ServiceState> {
    if (manager === 'systemd') return this.#stateOf(name);
    const isWanted = (state: ServiceState) => (action === 'stop' ? hasStopped(state) : state === 'running');
    return this.#until(name, isWanted, signal);
  }

  /** The state once it is as wanted, or the last one if that takes too long. */
  async #until(
    name: string,
    isWanted: (state: ServiceState) => boolean,
    signal?: AbortSignal,
  ): Promise<ServiceState> {
    const until = clock.monotonic() + this.#settleMs;
    for (;;) {
      const state = await this.#stateOf(name);
      if (isWanted(state) || clock.monotonic() >= until || signal?.aborted === true) return state;
      await clock.sleep(POLL_MS);
    }
  }

  /** A service that is not listed any more does not run. */
  async #stateOf(name: string): Promise<ServiceState> {
    const { services } = await this.#parts.read();
    return services.find((service) => service.name === name)?.state ?? 'stopped';
  }

  async #ownServices(): Promise<ReadonlySet<string>> {
    const own = (await this.#parts.ownServices?.()) ?? [];
    return new Set([UNIT_NAME.replace(/\.service$/, ''), JOB_LABEL, ...own]);
  }
}

/** By the name that the live list shows, or else by the one that is stored, which has no unusual characters. */
function named(services: readonly Service[], wanted: string): Service | undefined {
  const exact = services.find(({ name }) => nameShown(name) === wanted);
  if (exact !== undefined) return exact;
  const alike = services.filter(({ name }) => ServiceName.safeParse(name).data === wanted);
  return alike.length === 1 ? alike[0] : undefined;
}

const nameShown = (name: string) => printable(name, SERVICE_NAME_MAX).trim();

const hasStopped = (state: ServiceState) => state === 'stopped' || state === 'failed';

/** What no service manager writes as a name could be an option of its program, or a pattern for several services. */
const isPlainName = (name: string): boolean => !/^[-/\\]|[*?[\]\p{Cc}]/u.test(name);

function shown({ name, displayName, state, startMode }: Service, own: ReadonlySet<string>): LiveService {
  return {
    name: nameShown(name),
    ...(displayName === undefined ? {} : { displayName: printable(displayName, SERVICE_NAME_MAX).trim() }),
    state,
    ...(startMode === undefined ? {} : { startMode }),
    ...(own.has(name) ? { isProtected: true } : {}),
  };
}

/** The units or the job that this process runs in, by what the service manager tells it. */
export async function ownServices(sources: Sources = machineSources()): Promise<string[]> {
  const job = process.env['XPC_SERVICE_NAME'];
  if (sources.os === 'macos') return job === undefined ? [] : [job];
  if (sources.os !== 'linux') return [];
  // Lines such as `0::/system.slice/muster-agent.service`. A unit of a person runs below one of the system.
  const groups = (await sources.file('/proc/self/cgroup')) ?? '';
  return [...groups.matchAll(/\/([^/\n]+)\.service(?=\/|$)/gm)].flatMap(([, name]) =>
    name === undefined ? [] : [name],
  );
}

const runProgram: RunProgram = async (program, args) => {
  const command = await findProgram([program]);
  if (command === undefined) throw new AgentError(AgentErrorCode.failed, `${program} was not found.`);
  return new Promise((resolve, reject) => {
    const options = {
      timeout: PROGRAM_MS,
      windowsHide: true,
      maxBuffer: 1_000_000,
      env: { ...process.env, LC_ALL: 'C', SYSTEMD_COLORS: '0' },
    };
    execFile(command, [...args], options, (error, stdout, stderr) => {
      // Programs of Windows say on their standard output why they failed.
      const said = stderr.trim() === '' ? stdout.trim() : stderr.trim();
      if (error === null) resolve({ code: 0, said });
      // It was stopped here: what it asked for goes on, and the state is read next.
      else if (error.killed === true) resolve({ code: 0, said: '' });
      else if (typeof error.code === 'number') resolve({ code: error.code, said });
      else reject(new AgentError(AgentErrorCode.failed, error.message));
    });
  });
};
