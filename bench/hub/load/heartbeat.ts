import type { Heartbeat } from '../../../src/protocol/index.ts';

/** The heartbeat of a Windows agent, 431 bytes of JSON, used in every figure. */
export const HEARTBEAT: Heartbeat = {
  at: '2026-11-20T10:00:00.000Z',
  agentVersion: '1.4.2',
  watchdogVersion: '1.4.2',
  osVersion: 'Microsoft Windows 11 Enterprise 10.0.26100',
  osBuild: '26100.2314',
  uptimeSeconds: 11_086_412,
  metrics: { cpuPercent: 12.5, ramPercent: 61.25, diskPercent: 48.75 },
  ipAddresses: ['10.20.130.140', '192.168.178.121', 'fe80::1c2d:3e4f:5a6b:7c8d', '2001:db8::8a2e:370:7334'],
  lastUser: 'CONTOSO\\jane.doe',
  pendingReboot: false,
  autoUpdate: true,
};

export const HEARTBEAT_JSON = JSON.stringify(HEARTBEAT);
