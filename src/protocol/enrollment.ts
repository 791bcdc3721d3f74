import { z } from 'zod';
import { AgentConfig } from './agent-messages.ts';
import { Architecture, OsType } from './primitives.ts';

/** How an agent comes by its tokens, over HTTP: `POST /api/v1/agents/enroll` and `/agents/:id/token/rotate`. */

export const Hardware = z
  .object({
    manufacturer: z.string().max(255),
    model: z.string().max(255),
    serialNumber: z.string().max(255),
    cpuModel: z.string().max(255),
    cpuCores: z.number().int().positive(),
    ramTotalMb: z.number().nonnegative(),
    diskTotalGb: z.number().nonnegative(),
    gpuModel: z.string().max(255),
  })
  .partial();
export type Hardware = z.infer<typeof Hardware>;

export const Network = z
  .object({ ipAddress: z.string().max(45), publicIp: z.string().max(45), macAddress: z.string().max(17) })
  .partial();
export type Network = z.infer<typeof Network>;

export const EnrollRequest = z.object({
  enrollmentKey: z.string().min(1).max(64),
  hostname: z.string().min(1).max(255),
  osType: OsType,
  osVersion: z.string().min(1).max(200),
  osBuild: z.string().max(100).optional(),
  architecture: Architecture,
  agentVersion: z.string().min(1).max(50),
  machineId: z
    .string()
    .min(1)
    .max(128)
    .optional()
    .describe('The same machine enrolling again keeps its device.'),
  hardware: Hardware.optional(),
  network: Network.optional(),
  capabilities: z.array(z.string().min(1).max(64)).max(100).optional(),
});
export type EnrollRequest = z.infer<typeof EnrollRequest>;

export const EnrollResponse = z.object({
  agentId: z.uuid(),
  deviceId: z.uuid(),
  orgId: z.uuid(),
  siteId: z.uuid(),
  token: z.string().describe('Shown once; the server keeps only its hash.'),
  config: AgentConfig.extend({ hubUrl: z.string() }),
});
export type EnrollResponse = z.infer<typeof EnrollResponse>;

export const RotateTokenResponse = z.object({
  token: z.string().describe('Shown once. The token of before stays valid until this one is used.'),
});
export type RotateTokenResponse = z.infer<typeof RotateTokenResponse>;
