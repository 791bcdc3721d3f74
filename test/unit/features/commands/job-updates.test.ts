import { expect } from 'chai';
import { type JobRow, toJobUpdate } from '../../../../src/features/commands/command.queries.ts';

describe('the update of a command for dashboards', () => {
  const AT = new Date('2026-11-27T10:00:00.000Z');
  const row = (more: Partial<JobRow>): JobRow => ({
    id: 'a',
    orgId: 'b',
    deviceId: 'c',
    partnerId: 'd',
    type: 'script.run',
    status: 'running',
    progress: null,
    error: null,
    ...more,
  });
  const update = (more: Partial<JobRow>) => toJobUpdate(row(more), AT);

  it('names the command, its device and its time, and nothing that it does not have', () => {
    expect(update({ status: 'queued' })).to.deep.equal({
      id: 'a',
      kind: 'script.run',
      orgId: 'b',
      deviceId: 'c',
      state: 'queued',
      phase: 'queued',
      at: AT.toISOString(),
    });
  });

  it('has the phase and the message of its progress while it runs', () => {
    const progress = { id: 'a', seq: 3, percent: 40, phase: 'copying', message: 'disk 1 of 2' };
    expect(update({ progress })).to.include({ percent: 40, phase: 'copying', message: 'disk 1 of 2' });
    expect(update({})).to.include({ phase: 'running' });
  });

  it('has its state as its phase once it has ended, and the message of its error before that of its progress', () => {
    const progress = { id: 'a', seq: 3, phase: 'copying', message: 'disk 1 of 2' };
    const error = { code: 'DEVICE_ERROR', message: 'The disk is full.' };
    expect(update({ status: 'failed', progress, error })).to.include({
      phase: 'failed',
      message: 'The disk is full.',
    });
    expect(update({ status: 'succeeded', progress, exit: { exitCode: 3 } })).to.include({
      phase: 'succeeded',
      exitCode: 3,
    });
  });
});
