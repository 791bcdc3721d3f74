import { expect } from 'chai';
import type { Person } from '../../../support/factories.ts';
import type { TestApp } from '../../../support/test-app.ts';

const MINUTE = 60_000;

/** The time on the clocks of UTC in so many minutes, as a window begins. */
export const localIn = (minutes: number): string =>
  new Date(Date.now() + minutes * MINUTE).toISOString().slice(0, 16);

/** A window that began ten minutes ago and lasts an hour. */
export const NOW = () => ({
  name: `Patch night ${Math.random()}`,
  target: { all: true },
  timezone: 'UTC',
  start: localIn(-10),
  durationMinutes: 60,
});

export function windowGround(app: () => TestApp, admin: () => Person) {
  const send = (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: object, person = admin()) =>
    app().call(method, path, { token: person.token, ...(body === undefined ? {} : { body }) });
  return {
    send,
    /** Plans a window and lets it take effect. */
    plan: async (body: object = {}, person = admin()) => {
      const made = await send('POST', '/maintenance-windows', { ...NOW(), ...body }, person);
      expect(made.status, JSON.stringify(made.body)).to.equal(201);
      await app().settle();
      return made.body;
    },
    maintenanceOf: async (deviceId: string, person = admin()) =>
      (await send('GET', `/devices/${deviceId}`, undefined, person)).body.maintenance,
  };
}
