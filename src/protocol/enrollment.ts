import { z } from 'zod';
import { AgentConfig } from './agent-messages.ts';
import { Architecture, OsType, text } from './primitives.ts';

/** How an agent comes by its tokens, over HTTP: `POST /api/v1/agents/enroll` and `/agents/:id/token/rotate`. */

export const Hardware = z
  .object({
    manufacturer: text(255, 0),
    model: text(255, 0),
    serialNumber: text(255, 0),
    cpuModel: text(255, 0),
    cpuCores: z.number().int().positive(),
    ramTotalMb: z.number().nonnegative(),
    diskTotalGb: z.number().nonnegative(),
    gpuModel: text(255, 0),
  })
  .partial();
export type Hardware = z.infer<typeof Hardware>;

export const Network = z
  .object({ ipAddress: text(45, 0), publicIp: text(45, 0), macAddress: text(17, 0) })
  .partial();
export type Network = z.infer<typeof Network>;

export const EnrollRequest = z.object({
  enrollmentKey: text(64),
  hostname: text(255),
  osType: OsType,
  osVersion: text(200),
  osBuild: text(100, 0).nullish(),
  architecture: Architecture,
  agentVersion: text(50),
  machineId: text(128).nullish().describe('The same machine enrolling again keeps its device.'),
  hardware: Hardware.optional(),
  network: Network.optional(),
  capabilities: z.array(text(64)).max(100).optional(),
});
export type EnrollRequest = z.infer<typeof EnrollRequest>;

export const EnrollResponse = z.object({
  agentId: z.uuid(),
  deviceId: z.uuid(),
  orgId: z.uuid(),
  siteId: z.uuid(),
  token: z.string().describe('Shown once; the server keeps only its hash.'),
  config: AgentConfig.extend({
    hubUrl: z.string().describe('Where the socket of agents is: an absolute URL.'),
  }),
});
export type EnrollResponse = z.infer<typeof EnrollResponse>;

export const RotateTokenResponse = z.object({
  token: z.string().describe('Shown once. The token of before stays valid until this one is used.'),
});
export type RotateTokenResponse = z.infer<typeof RotateTokenResponse>;
