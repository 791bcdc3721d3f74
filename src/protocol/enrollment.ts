import { z } from 'zod';
import { AgentConfig } from './agent-messages.ts';
import { Architecture, OsType, reportedText, text } from './primitives.ts';

/** How an agent gets its tokens, over HTTP: `POST /api/v1/agents/enroll` and `/agents/:id/token/rotate`. */

export const Hardware = z
  .object({
    manufacturer: reportedText(255, 0),
    model: reportedText(255, 0),
    serialNumber: reportedText(255, 0),
    cpuModel: reportedText(255, 0),
    cpuCores: z.number().int().positive(),
    ramTotalMb: z.number().nonnegative(),
    diskTotalGb: z.number().nonnegative(),
    gpuModel: reportedText(255, 0),
  })
  .partial();
export type Hardware = z.infer<typeof Hardware>;

export const Network = z
  .object({ ipAddress: reportedText(45, 0), publicIp: reportedText(45, 0), macAddress: reportedText(17, 0) })
  .partial();
export type Network = z.infer<typeof Network>;

export const EnrollRequest = z.object({
  enrollmentKey: text(64),
  hostname: reportedText(255),
  osType: OsType,
  osVersion: reportedText(200),
  osBuild: reportedText(100, 0).nullish(),
  architecture: Architecture,
  agentVersion: reportedText(50),
  machineId: text(128).nullish().describe('A machine that enrolls again with the same id keeps its device.'),
  hardware: Hardware.optional(),
  network: Network.optional(),
  capabilities: z.array(reportedText(64)).max(100).optional(),
});
export type EnrollRequest = z.infer<typeof EnrollRequest>;

export const EnrollResponse = z.object({
  agentId: z.uuid(),
  deviceId: z.uuid(),
  orgId: z.uuid(),
  siteId: z.uuid(),
  token: z.string().describe('Returned once; the server stores only its hash.'),
  config: AgentConfig.extend({
    hubUrl: z.string().describe('The absolute URL of the socket for agents.'),
  }),
});
export type EnrollResponse = z.infer<typeof EnrollResponse>;

export const RotateTokenResponse = z.object({
  token: z.string().describe('Returned once. The previous token stays valid until this one is used.'),
});
export type RotateTokenResponse = z.infer<typeof RotateTokenResponse>;
