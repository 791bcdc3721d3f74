import { expect } from 'chai';
import {
  ownServices,
  ServiceControl,
} from '../../../../../src/agent/capabilities/services/service-control.ts';
import type { ServiceList } from '../../../../../src/agent/capabilities/services/service-reader.ts';
import { AgentError } from '../../../../../src/agent/core/agent-error.ts';
import type { ServiceAction, ServiceState } from '../../../../../src/protocol/index.ts';
import { useTestClock } from '../../../../support/use-test-clock.ts';
import { recordedSources } from '../inventory/recorded-sources.ts';

describe('the control of services', () => {
  const time = useTestClock({ isRunning: false });
  let list: ServiceList;
  let ran: string[][];
  let answer: { code: number; said: string };
  let onRun: (words: string[]) => void;
  let changes: (string | undefined)[];
  let control: ServiceControl;

  beforeEach(() => {
    list = { manager: 'systemd', services: ['nginx', 'muster-agent', 'own-unit'].map(running) };
    [ran, answer, changes] = [[], { code: 0, said: '' }, []];
    onRun = () => {};
    control = new ServiceControl({
      read: async () => list,
      onChanged: (restarted) => void changes.push(restarted),
      ownServices: async () => ['own-unit'],
      async run(program, args) {
        ran.push([program, ...args]);
        onRun([program, ...args]);
        return answer;
      },
    });
  });
  const running = (name: string) => ({ name, state: 'running' as ServiceState });
  const set = (name: string, state: ServiceState) => {
    list = {
      ...list,
      services: list.services.map((service) => (service.name === name ? { ...service, state } : service)),
    };
  };
  const NEVER = new AbortController().signal;
  const act = async (name: string, action: ServiceAction, signal = NEVER) => {
    const state = { isOver: false };
    const acting = control
      .control({ name, action }, signal)
      .catch((error: unknown) => (error instanceof AgentError ? [error.code, error.message] : String(error)))
      .finally(() => {
        state.isOver = true;
      });
    for (let step = 0; step < 200 && !state.isOver; step += 1) await time.advance(500);
    return acting;
  };
  const codeOf = async (...order: Parameters<typeof act>) => {
    const ended = await act(...order);
    return Array.isArray(ended) ? ended[0] : ended;
  };

  it('passes the action and the whole name of the unit to systemctl, and reads the new state', async () => {
    onRun = () => set('nginx', 'stopped');
    expect(await act('nginx', 'stop')).to.deep.equal({ before: 'running', after: 'stopped' });
    expect(ran).to.deep.equal([['systemctl', '--no-ask-password', 'stop', '--', 'nginx.service']]);
    expect(changes).to.deep.equal([undefined]);
    onRun = () => set('nginx', 'running');
    expect(await act('nginx', 'restart')).to.deep.equal({ before: 'stopped', after: 'running' });
    expect(changes).to.deep.equal([undefined, 'nginx']);
  });

  it('runs nothing for a name that the machine does not list', async () => {
    for (const name of ['; rm -rf /', '--force', 'ngin*', 'NGINX', 'nginx.service', '', '../nginx']) {
      expect(await codeOf(name, 'stop'), name).to.equal('SERVICE_NOT_FOUND');
    }
    // Nor for names that a service manager could not have written.
    list = { manager: 'systemd', services: ['--force', '*', 'a\nb', String.raw`\\other`].map(running) };
    for (const { name } of list.services) {
      expect(await codeOf(name, 'stop'), name).to.equal('SERVICE_NOT_FOUND');
    }
    list = { manager: 'none', services: [] };
    expect(await codeOf('nginx', 'start')).to.equal('SERVICE_NOT_FOUND');
    expect(ran).to.deep.equal([]);
  });

  it('does not stop or restart the service of the agent, whichever it is', async () => {
    for (const name of ['muster-agent', 'own-unit']) {
      for (const action of ['stop', 'restart'] as const) {
        expect(await codeOf(name, action), name).to.equal('SERVICE_PROTECTED');
      }
    }
    expect(ran).to.deep.equal([]);
    const { services } = await control.list();
    expect(services.filter(({ isProtected }) => isProtected).map(({ name }) => name)).to.deep.equal([
      'muster-agent',
      'own-unit',
    ]);
  });

  it('reports what the machine says if it refuses, and that something may have changed', async () => {
    answer = { code: 1, said: 'Failed to stop nginx.service: Access denied\nSee the log.' };
    expect(await act('nginx', 'stop')).to.deep.equal(['FAILED', answer.said]);
    expect(changes).to.deep.equal([undefined]);
  });

  it('runs one action on a service at a time', async () => {
    const first = control.control({ name: 'nginx', action: 'stop' }, NEVER);
    expect(await codeOf('nginx', 'start')).to.equal('BUSY');
    await first;
    expect(await act('nginx', 'start')).to.have.property('after');
  });

  it('does nothing after the time in which the answer is waited for', async () => {
    expect(await codeOf('nginx', 'stop', AbortSignal.abort())).to.equal('TIMED_OUT');
    expect(ran).to.deep.equal([]);
  });

  it('waits on Windows for the new state, and starts a service again only when it has stopped', async () => {
    list = { manager: 'windows', services: [running('Spooler')] };
    onRun = ([, action]) => set('Spooler', action === 'stop' ? 'stopping' : 'running');
    expect(await act('Spooler', 'restart')).to.deep.equal([
      'FAILED',
      'The service has not stopped within 10 s, and was not started again.',
    ]);
    expect(ran).to.deep.equal([['sc', 'stop', 'Spooler']]);
    ran = [];
    set('Spooler', 'running');
    onRun = ([, action]) => set('Spooler', action === 'stop' ? 'stopped' : 'running');
    expect(await act('Spooler', 'restart')).to.deep.equal({ before: 'running', after: 'running' });
    expect(ran).to.deep.equal([
      ['sc', 'stop', 'Spooler'],
      ['sc', 'start', 'Spooler'],
    ]);
    onRun = () => set('Spooler', 'stopping');
    expect(await act('Spooler', 'stop')).to.deep.equal({ before: 'running', after: 'stopping' });
  });

  it('names the job to launchctl in the domain of the system', async () => {
    list = { manager: 'launchd', services: [running('org.cups.cupsd')] };
    await act('org.cups.cupsd', 'restart');
    onRun = () => set('org.cups.cupsd', 'stopped');
    await act('org.cups.cupsd', 'stop');
    expect(ran).to.deep.equal([
      ['launchctl', 'kickstart', '-k', 'system/org.cups.cupsd'],
      ['launchctl', 'kill', 'SIGTERM', 'system/org.cups.cupsd'],
    ]);
  });

  it('knows the units that the agent runs in', async () => {
    const of = (groups: string) =>
      ownServices(recordedSources({ os: 'linux', files: { '/proc/self/cgroup': groups } }));
    expect(await of('0::/system.slice/own-unit.service\n')).to.deep.equal(['own-unit']);
    expect(await of('0::/user.slice/user@1000.service/app.slice/x.service/y\n')).to.deep.equal([
      'user@1000',
      'x',
    ]);
    expect(await of('0::/\n')).to.deep.equal([]);
  });
});
