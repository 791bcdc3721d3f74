import { expect } from 'chai';
import fc from 'fast-check';
import { mergeReports } from '../../../../src/features/device-services/merge-reports.ts';
import type { DeviceServiceReport } from '../../../../src/hub/ports.ts';
import { type ReportedService, ServiceState } from '../../../../src/protocol/index.ts';

const name = fc.constantFrom('a', 'b', 'c');
const service = fc.record({ name, state: fc.constantFrom(...ServiceState.options) });
const report: fc.Arbitrary<DeviceServiceReport> = fc.record({
  deviceId: fc.constantFrom('one', 'two'),
  report: fc.record({
    manager: fc.constant('systemd' as const),
    isComplete: fc.boolean(),
    services: fc.array(fc.option(service), { maxLength: 5 }),
    removed: fc.array(fc.option(name), { maxLength: 3 }),
  }),
});

describe('reports of services that are stored together', () => {
  /** What is known of a device after reports, one after another. */
  const after = (reports: readonly DeviceServiceReport[], known = new Map<string, ReportedService>()) => {
    for (const { report: one } of reports) {
      if (one.isComplete) known.clear();
      for (const gone of one.removed ?? []) if (gone !== null) known.delete(gone);
      for (const found of one.services) if (found !== null) known.set(found.name, found);
    }
    return [...known.values()].map((one) => `${one.name} ${one.state}`).toSorted();
  };

  it('say the same as one after another, with each device and each service once', () => {
    fc.assert(
      fc.property(
        fc.array(report, { maxLength: 8 }),
        fc.array(service, { maxLength: 3 }),
        (reports, before) => {
          const merged = mergeReports(reports);
          expect(new Set(merged.map(({ deviceId }) => deviceId)).size).to.equal(merged.length);
          for (const { deviceId, services, removed, isComplete, manager } of merged) {
            const names = [...services.map((one) => one.name), ...removed];
            expect(new Set(names).size).to.equal(names.length);
            const known = () => new Map<string, ReportedService>(before.map((one) => [one.name, one]));
            const own = reports.filter((one) => one.deviceId === deviceId);
            const together = [
              { deviceId, report: { manager, isComplete, services: [...services], removed: [...removed] } },
            ];
            expect(after(together, known())).to.deep.equal(after(own, known()));
          }
        },
      ),
    );
  });
});
