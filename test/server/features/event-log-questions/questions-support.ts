import { expect } from 'chai';
import type { CommandFrame, LogEntry } from '../../../../src/protocol/index.ts';
import { eventually } from '../../../support/eventually.ts';
import type { EnrolledDevice, Person } from '../../../support/factories.ts';
import { connectDevice, type FakeDevice, graceOver } from '../../../support/fake-device.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

export const entry = (recordId: number, more: Partial<LogEntry> = {}): LogEntry => ({
  recordId,
  timeCreated: '2026-11-20T10:00:00.000Z',
  level: 'error',
  source: 'disk',
  eventId: 7,
  message: `Bad block ${recordId}`,
  category: 'System',
  user: null,
  computer: 'DESK-1',
  ...more,
});

export const SUMMARY = { scanned: 10, truncated: false };

/** Asking, and devices that come and answer, for the tests of standing questions. */
export function questionGround(app: () => TestApp, person: () => Person) {
  const send = (method: 'GET' | 'POST' | 'DELETE', path: string, body?: object, by = person()) =>
    app().call(method, `/event-log-questions${path}`, {
      token: by.token,
      ...(body === undefined ? {} : { body }),
    });
  const sql = (text: string, values: unknown[] = []) => asOwner(app().database.ownerUrl, text, values);

  /** Lets what waits for its time be due until the device has a query. */
  const untilAsked = async (agent: FakeDevice): Promise<CommandFrame> => {
    const frame = await eventually(
      async () => {
        await hasten();
        return agent.commands.shift();
      },
      (found) => found !== undefined,
    );
    return frame ?? expect.fail('The device was not asked.');
  };

  /** What waits for its time is due now. */
  const hasten = async () => {
    await sql(
      `update work set due_at = now() where kind = 'event_log_question' and stage = 'ready' and due_at > now()`,
    );
    // Not awaited: it ends when the devices that are asked have answered.
    void app()
      .settle()
      .catch(() => undefined);
  };

  return {
    send,
    sql,
    hasten,
    untilAsked,
    ask: async (deviceIds: readonly string[], more: object = {}, by = person()) => {
      const made = await send(
        'POST',
        '',
        { target: { deviceIds }, query: { name: 'System', level: ['error'] }, days: 3, ...more },
        by,
      );
      expect(made.status, JSON.stringify(made.body)).to.equal(201);
      return made.body;
    },
    come: async ({ token }: EnrolledDevice): Promise<FakeDevice> => {
      const agent = await connectDevice(app(), token);
      await agent.heartbeat();
      return agent;
    },
    leave: async (agent: FakeDevice, { deviceId }: EnrolledDevice) => {
      agent.close();
      await graceOver(app(), deviceId);
    },
    outcomeOf: async (id: string, { deviceId }: EnrolledDevice, by = person()) =>
      (await send('GET', `/${id}/devices/${deviceId}`, undefined, by)).body,
    /** Waits until the device has this outcome. */
    untilOutcome: (id: string, { deviceId }: EnrolledDevice, outcome: string, by = person()) =>
      eventually(
        async () => {
          await hasten();
          return (await send('GET', `/${id}/devices/${deviceId}`, undefined, by)).body;
        },
        (found) => found.device?.outcome === outcome,
      ),
  };
}
