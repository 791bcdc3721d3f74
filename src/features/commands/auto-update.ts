import type { DeviceHub } from '../../hub/index.ts';
import type { TellAutoUpdate } from '../devices/index.ts';
import { addCommands } from './command.service.ts';

/** The longest time that a command may wait, so that an agent that was away for long still receives the setting. */
const TTL_SECONDS = 30 * 24 * 3600;

/** Lets the devices feature, which this one builds on, send a device its setting for automatic updates. */
export const autoUpdateCommands =
  (hub: DeviceHub): TellAutoUpdate =>
  (ctx, devices, enabled) =>
    addCommands(
      ctx,
      devices,
      { type: 'agent.set-auto-update', payload: { enabled }, ttlSeconds: TTL_SECONDS },
      hub,
    );
