import { expect } from 'chai';
import fc from 'fast-check';
import type { Service } from '../../../../../src/agent/capabilities/services/service-reader.ts';
import {
  reportOf,
  seen,
  type SeenServices,
} from '../../../../../src/agent/capabilities/services/service-changes.ts';
import { type ReportedService, ServiceReport, ServiceState } from '../../../../../src/protocol/index.ts';

const timeOf = (at: number) => new Date(at * 1000).toISOString();
const list = (services: Service[]) => ({ manager: 'systemd' as const, services });

describe('what an agent reports of the services that it has seen', () => {
  const nginx: Service = { name: 'nginx', displayName: 'The server', state: 'running' };
  const redis: Service = { name: 'redis', state: 'running' };

  it('is everything at first, without times that nobody knows', () => {
    const now = seen(undefined, list([redis, nginx]), 1);
    expect(reportOf(undefined, now, timeOf)).to.deep.equal({
      manager: 'systemd',
      isComplete: true,
      services: [nginx, redis],
    });
    expect(reportOf(now, now, timeOf)).to.equal(undefined);
  });

  it('is then what has changed, with its time, and what is gone', () => {
    const first = seen(undefined, list([nginx, redis]), 1);
    const next = seen(
      first,
      list([
        { ...nginx, state: 'failed' },
        { name: 'new', state: 'running' },
      ]),
      5,
    );
    const later = seen(
      next,
      list([
        { ...nginx, state: 'failed' },
        { name: 'new', state: 'running' },
      ]),
      9,
    );
    expect(reportOf(first, later, timeOf)).to.deep.equal({
      manager: 'systemd',
      isComplete: false,
      services: [
        { name: 'new', state: 'running', since: timeOf(5) },
        { ...nginx, state: 'failed', since: timeOf(5) },
      ],
      removed: ['redis'],
    });
  });

  it('is also a service that was restarted between two reports', () => {
    const first = seen(undefined, list([nginx]), 1);
    const stopped = seen(first, list([{ ...nginx, state: 'stopped' }]), 2);
    const again = seen(stopped, list([nginx]), 3);
    expect(reportOf(first, again, timeOf)?.services).to.deep.equal([{ ...nginx, since: timeOf(3) }]);
  });

  it('is everything if the service manager is another one', () => {
    const none = seen(undefined, { manager: 'none', services: [] }, 1);
    expect(reportOf(undefined, none, timeOf)).to.deep.equal({
      manager: 'none',
      isComplete: true,
      services: [],
    });
    expect(reportOf(none, seen(none, list([nginx]), 2), timeOf)).to.deep.include({ isComplete: true });
  });

  it('is a thousand services at most, with the number of all', () => {
    const many = Array.from(
      { length: 1200 },
      (_, n): Service => ({
        name: `service ${String(n).padStart(4, '0')}`,
        displayName: '\u0001 ü'.repeat(2000),
        state: 'running',
      }),
    );
    const report = reportOf(undefined, seen(undefined, list(many), 1), timeOf);
    expect(report?.services).to.have.length(1000);
    expect(report?.total).to.equal(1200);
    expect(Buffer.byteLength(JSON.stringify(report))).to.be.below(980_000);
    expect(ServiceReport.safeParse(report).success).to.equal(true);
  });

  it('fits into a message whatever the services are called', () => {
    const many = Array.from(
      { length: 1000 },
      (_, n): Service => ({
        name: `${n}${'漢'.repeat(500)}`,
        displayName: '漢'.repeat(500),
        state: 'stopped',
        startMode: 'automatic',
      }),
    );
    const report = reportOf(undefined, seen(undefined, list(many), 1), timeOf);
    expect(report?.services).to.have.length(1000);
    expect(Buffer.byteLength(JSON.stringify(report))).to.be.below(980_000);
  });

  const services = fc
    .uniqueArray(
      fc.record({
        name: fc.constantFrom('a', 'b', 'c', 'd'),
        state: fc.constantFrom(...ServiceState.options),
      }),
      { selector: ({ name }) => name },
    )
    .map((all): Service[] => all);

  it('brings the server to what the machine is, whichever reports arrive', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(services, fc.boolean()), { minLength: 1, maxLength: 12 }), (readings) => {
        const server = new Map<string, ReportedService>();
        let now: SeenServices | undefined;
        let told: SeenServices | undefined;
        for (const [at, [found, isConnected]] of readings.entries()) {
          now = seen(now, list(found), at);
          const report = reportOf(told, now, timeOf);
          if (!isConnected || report === undefined) continue;
          if (report.isComplete) server.clear();
          for (const name of report.removed ?? []) if (name !== null) server.delete(name);
          for (const service of report.services) if (service !== null) server.set(service.name, service);
          told = now;
          const states = [...server.values()].map(({ name, state }) => `${name} ${state}`);
          expect(states.toSorted()).to.deep.equal(
            found.map(({ name, state }) => `${name} ${state}`).toSorted(),
          );
          expect(reportOf(told, now, timeOf)).to.equal(undefined);
        }
      }),
    );
  });
});
