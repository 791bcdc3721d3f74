import { Heartbeat, Metrics } from '../../protocol/index.ts';

/**
 * Recognizes a heartbeat that its schema would accept unchanged. Every device sends heartbeats all the time, and parsing
 * them by the schema was a tenth of their cost. The schema still decides about every other message: one with unknown
 * fields, another notation of a time or an address, or faults. The limits are read from the schema, and a property test
 * checks that both agree.
 */
export function isPlainHeartbeat(value: unknown): value is Heartbeat {
  if (!isObject(value)) return false;
  const { at, agentVersion, watchdogVersion, osVersion, osBuild } = value;
  const { uptimeSeconds, metrics, ipAddresses, lastUser, pendingReboot, autoUpdate, hostname } = value;
  let known = 2;
  if (!isPlainInstant(at) || !isText(agentVersion, LIMITS.agentVersion)) return false;
  if (watchdogVersion !== undefined) {
    if (!isText(watchdogVersion, LIMITS.watchdogVersion)) return false;
    known += 1;
  }
  if (osVersion !== undefined) {
    if (!isComposedText(osVersion, LIMITS.osVersion)) return false;
    known += 1;
  }
  if (osBuild !== undefined) {
    if (!isComposedText(osBuild, LIMITS.osBuild)) return false;
    known += 1;
  }
  if (uptimeSeconds !== undefined) {
    if (!isWithin(uptimeSeconds, LIMITS.uptimeSeconds)) return false;
    known += 1;
  }
  if (metrics !== undefined) {
    if (!isPlainMetrics(metrics)) return false;
    known += 1;
  }
  if (ipAddresses !== undefined) {
    if (!isPlainAddresses(ipAddresses)) return false;
    known += 1;
  }
  if (lastUser !== undefined) {
    if (!isComposedText(lastUser, LIMITS.lastUser)) return false;
    known += 1;
  }
  if (pendingReboot !== undefined) {
    if (typeof pendingReboot !== 'boolean') return false;
    known += 1;
  }
  if (autoUpdate !== undefined) {
    if (typeof autoUpdate !== 'boolean') return false;
    known += 1;
  }
  if (hostname !== undefined) {
    if (!isPlainName(hostname)) return false;
    known += 1;
  }
  // The schema would remove any other field.
  return countKeys(value) === known;
}

interface Limits {
  min: number;
  max: number;
}

/** A schema without limits leaves every value to the schema. */
const ofText = ({
  minLength,
  maxLength,
}: {
  minLength: number | null;
  maxLength: number | null;
}): Limits => ({
  min: minLength ?? 0,
  max: maxLength ?? -1,
});
const ofNumber = ({ minValue, maxValue }: { minValue: number | null; maxValue: number | null }): Limits => ({
  min: minValue ?? 0,
  max: maxValue ?? -1,
});
const { shape } = Heartbeat;
const LIMITS = {
  agentVersion: ofText(shape.agentVersion),
  watchdogVersion: ofText(shape.watchdogVersion.unwrap()),
  osVersion: ofText(shape.osVersion.unwrap()),
  osBuild: ofText(shape.osBuild.unwrap()),
  lastUser: ofText(shape.lastUser.unwrap()),
  uptimeSeconds: ofNumber(shape.uptimeSeconds.unwrap()),
  cpuPercent: ofNumber(Metrics.shape.cpuPercent),
  ramPercent: ofNumber(Metrics.shape.ramPercent),
  diskPercent: ofNumber(Metrics.shape.diskPercent),
};
/** More addresses than machines have. The schema decides about longer lists. */
const ADDRESSES = 16;

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function countKeys(value: object): number {
  let count = 0;
  for (const _key in value) count += 1;
  return count;
}

const isWithin = (value: unknown, { min, max }: Limits): value is number =>
  typeof value === 'number' && value >= min && value <= max;

/** Stored text has to be well-formed and without NUL. */
const isText = (value: unknown, { min, max }: Limits): value is string =>
  typeof value === 'string' &&
  value.length >= min &&
  value.length <= max &&
  value.isWellFormed() &&
  !value.includes('\0');

/** Text that is in NFC: no character below U+0300 has another form there. */
const isComposedText = (value: unknown, limits: Limits): value is string =>
  isText(value, limits) && !/[\u0300-\uffff]/.test(value);

/** A name in ASCII without white space, which the schema would not change. */
const isPlainName = (value: unknown): boolean => typeof value === 'string' && /^[!-~]{1,255}$/.test(value);

function isPlainMetrics(value: unknown): boolean {
  return (
    isObject(value) &&
    isWithin(value['cpuPercent'], LIMITS.cpuPercent) &&
    isWithin(value['ramPercent'], LIMITS.ramPercent) &&
    isWithin(value['diskPercent'], LIMITS.diskPercent) &&
    countKeys(value) === 3
  );
}

const ZERO = 0x30;
/** The value of the two digits, or NaN. */
function twoDigits(text: string, at: number): number {
  const tens = text.charCodeAt(at) - ZERO;
  const ones = text.charCodeAt(at + 1) - ZERO;
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? tens * 10 + ones : Number.NaN;
}

/** A time as `toISOString` writes it, on a day that exists in the month of every year. */
function isPlainInstant(value: unknown): boolean {
  if (typeof value !== 'string' || value.length !== 24) return false;
  const month = twoDigits(value, 5);
  const day = twoDigits(value, 8);
  return (
    twoDigits(value, 0) >= 0 &&
    twoDigits(value, 2) >= 0 &&
    value[4] === '-' &&
    month >= 1 &&
    month <= 12 &&
    value[7] === '-' &&
    day >= 1 &&
    (day <= 28 || (day <= 30 && month !== 2)) &&
    value[10] === 'T' &&
    twoDigits(value, 11) <= 23 &&
    value[13] === ':' &&
    twoDigits(value, 14) <= 59 &&
    value[16] === ':' &&
    twoDigits(value, 17) <= 59 &&
    value[19] === '.' &&
    twoDigits(value, 20) >= 0 &&
    twoDigits(`0${value[22]}`, 0) >= 0 &&
    value[23] === 'Z'
  );
}

function isPlainAddresses(value: unknown): boolean {
  if (!Array.isArray(value) || value.length > ADDRESSES) return false;
  for (const address of value) if (!isPlainAddress(address)) return false;
  return true;
}

const DOT = 0x2e;
const COLON = 0x3a;

/** An IPv4 address, or an IPv6 address without a zone and without an embedded IPv4 address. */
function isPlainAddress(value: unknown): boolean {
  if (typeof value !== 'string' || value.length > 39) return false;
  return value.includes(':') ? isPlainIpv6(value) : isPlainIpv4(value);
}

function isPlainIpv4(text: string): boolean {
  let parts = 0;
  let number = 0;
  let digits = 0;
  for (let at = 0; at <= text.length; at++) {
    const code = at === text.length ? DOT : text.charCodeAt(at);
    if (code === DOT) {
      if (digits === 0 || number > 255) return false;
      parts += 1;
      number = 0;
      digits = 0;
    } else {
      const digit = code - ZERO;
      // Leading zeros are ambiguous: some parsers read them as octal.
      if (digit < 0 || digit > 9 || (digits > 0 && number === 0) || digits === 3) return false;
      number = number * 10 + digit;
      digits += 1;
    }
  }
  return parts === 4;
}

function isPlainIpv6(text: string): boolean {
  const { length } = text;
  let groups = 0;
  let digits = 0;
  let hasGap = false;
  for (let at = 0; at < length; at++) {
    const code = text.charCodeAt(at);
    if (isHex(code)) {
      digits += 1;
      if (digits > 4) return false;
      if (digits === 1) groups += 1;
    } else if (code === COLON) {
      const isGap = text.charCodeAt(at + 1) === COLON;
      if (isGap && hasGap) return false;
      // A single colon has to separate two groups.
      if (!isGap && (digits === 0 || at === length - 1)) return false;
      if (isGap) {
        hasGap = true;
        at += 1;
      }
      digits = 0;
    } else return false;
  }
  return hasGap ? groups <= 7 : groups === 8;
}

const isHex = (code: number) =>
  (code >= ZERO && code <= 0x39) || (code >= 0x61 && code <= 0x66) || (code >= 0x41 && code <= 0x46);
