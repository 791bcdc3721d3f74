/* Made by `npm run docs` from the route table. Do not edit it: a test compares it with the routes. */

/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "TimelineEntry".
 */
export type TimelineEntry = ({
/**
 * Unique within its kind. The id of the record, if there is one.
 */
id: string
/**
 * When it happened or began.
 */
at: string
/**
 * When it ended; null if it has not, or takes no time.
 */
endedAt: (string | null)
/**
 * The person who caused it; null if none did.
 */
by: ({
id: (string | null)
/**
 * The present name, or the one of that time if the person is not known any more.
 */
name: string
} | null)
kind: "presence"
state: ("connected" | "disconnected")
reason: ("connected" | "heartbeat_missed" | "socket_closed" | "node_lost" | "updating" | "never_seen")
} | {
/**
 * Unique within its kind. The id of the record, if there is one.
 */
id: string
/**
 * When it happened or began.
 */
at: string
/**
 * When it ended; null if it has not, or takes no time.
 */
endedAt: (string | null)
/**
 * The person who caused it; null if none did.
 */
by: ({
id: (string | null)
/**
 * The present name, or the one of that time if the person is not known any more.
 */
name: string
} | null)
kind: "alert"
title: string
severity: ("critical" | "high" | "medium" | "low" | "info")
status: ("active" | "acknowledged" | "resolved")
} | {
/**
 * Unique within its kind. The id of the record, if there is one.
 */
id: string
/**
 * When it happened or began.
 */
at: string
/**
 * When it ended; null if it has not, or takes no time.
 */
endedAt: (string | null)
/**
 * The person who caused it; null if none did.
 */
by: ({
id: (string | null)
/**
 * The present name, or the one of that time if the person is not known any more.
 */
name: string
} | null)
kind: "command"
type: string
scriptName: (string | null)
/**
 * The script run that the command is part of.
 */
runId: (string | null)
status: ("queued" | "dispatched" | "accepted" | "running" | "succeeded" | "failed" | "cancelled" | "timed_out" | "expired")
} | {
/**
 * Unique within its kind. The id of the record, if there is one.
 */
id: string
/**
 * When it happened or began.
 */
at: string
/**
 * When it ended; null if it has not, or takes no time.
 */
endedAt: (string | null)
/**
 * The person who caused it; null if none did.
 */
by: ({
id: (string | null)
/**
 * The present name, or the one of that time if the person is not known any more.
 */
name: string
} | null)
kind: "backup"
/**
 * Such as backup, restore, verification or vault_sync.
 */
task: string
status: string
error: (string | null)
} | {
/**
 * Unique within its kind. The id of the record, if there is one.
 */
id: string
/**
 * When it happened or began.
 */
at: string
/**
 * When it ended; null if it has not, or takes no time.
 */
endedAt: (string | null)
/**
 * The person who caused it; null if none did.
 */
by: ({
id: (string | null)
/**
 * The present name, or the one of that time if the person is not known any more.
 */
name: string
} | null)
kind: "upgrade"
component: string
fromVersion: (string | null)
toVersion: string
state: string
error: (string | null)
} | {
/**
 * Unique within its kind. The id of the record, if there is one.
 */
id: string
/**
 * When it happened or began.
 */
at: string
/**
 * When it ended; null if it has not, or takes no time.
 */
endedAt: (string | null)
/**
 * The person who caused it; null if none did.
 */
by: ({
id: (string | null)
/**
 * The present name, or the one of that time if the person is not known any more.
 */
name: string
} | null)
kind: "software"
installed: number
updated: number
removed: number
/**
 * The first of them, by name.
 */
names: string[]
} | {
/**
 * Unique within its kind. The id of the record, if there is one.
 */
id: string
/**
 * When it happened or began.
 */
at: string
/**
 * When it ended; null if it has not, or takes no time.
 */
endedAt: (string | null)
/**
 * The person who caused it; null if none did.
 */
by: ({
id: (string | null)
/**
 * The present name, or the one of that time if the person is not known any more.
 */
name: string
} | null)
kind: "terminal"
reason: (string | null)
} | {
/**
 * Unique within its kind. The id of the record, if there is one.
 */
id: string
/**
 * When it happened or began.
 */
at: string
/**
 * When it ended; null if it has not, or takes no time.
 */
endedAt: (string | null)
/**
 * The person who caused it; null if none did.
 */
by: ({
id: (string | null)
/**
 * The present name, or the one of that time if the person is not known any more.
 */
name: string
} | null)
kind: "group"
groupId: string
groupName: string
change: ("joined" | "left")
/**
 * filter_match and filter_unmatch: the device changed and now does, or does not, match the filter.
 */
reason: ("manual" | "group_created" | "filter_match" | "filter_unmatch" | "filter_changed" | "device_moved" | "device_decommissioned")
} | {
/**
 * Unique within its kind. The id of the record, if there is one.
 */
id: string
/**
 * When it happened or began.
 */
at: string
/**
 * When it ended; null if it has not, or takes no time.
 */
endedAt: (string | null)
/**
 * The person who caused it; null if none did.
 */
by: ({
id: (string | null)
/**
 * The present name, or the one of that time if the person is not known any more.
 */
name: string
} | null)
kind: "change"
action: string
result: ("success" | "failure" | "denied")
/**
 * The fields that were changed.
 */
fields: string[]
} | {
/**
 * Unique within its kind. The id of the record, if there is one.
 */
id: string
/**
 * When it happened or began.
 */
at: string
/**
 * When it ended; null if it has not, or takes no time.
 */
endedAt: (string | null)
/**
 * The person who caused it; null if none did.
 */
by: ({
id: (string | null)
/**
 * The present name, or the one of that time if the person is not known any more.
 */
name: string
} | null)
kind: "note"
text: string
isPinned: boolean
editedAt: (string | null)
})
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "AlertCondition".
 */
export type AlertCondition = ({
kind: "offline"
/**
 * How long the device has not been connected.
 */
forMinutes: number
} | {
kind: "metric"
/**
 * Those of volumes are evaluated for each volume of the device.
 */
metric: ("cpuPercent" | "ramPercent" | "swapPercent" | "load" | "diskPercent" | "diskFreeBytes" | "uptimeSeconds" | "networkReceivedPerSecond" | "networkSentPerSecond" | "diskReadPerSecond" | "diskWrittenPerSecond")
operator: ("greaterThan" | "greaterThanOrEquals" | "lessThan" | "lessThanOrEquals")
/**
 * In percent, bytes, bytes a second or seconds, as the metric is.
 */
threshold: number
/**
 * The condition is met until the figure is beyond this one on the other side, so that figures near the threshold raise no alert after alert. Without it, the threshold itself counts.
 */
clearThreshold?: number
/**
 * How long the figure has been beyond the threshold without a break. Devices report figures each minute. 0: a single figure is enough.
 */
forMinutes: number
} | {
kind: "event"
/**
 * The log that the event is from, such as System. Exact.
 */
log?: string
category?: ("security" | "hardware" | "application" | "system")
/**
 * This level or a worse one.
 */
level?: ("info" | "warning" | "error" | "critical")
/**
 * Exact, such as Microsoft-Windows-Kernel-Power.
 */
source?: string
/**
 * As the source numbers its events.
 */
eventId?: number
/**
 * Part of the message, case-insensitive.
 */
text?: string
/**
 * The number of events that fit. Of a device that sends floods of events, the newest 5,000 of the time are read.
 */
count: number
/**
 * The time in which so many events happened.
 */
withinMinutes: number
} | {
kind: "software"
/**
 * Part of the name, case-insensitive.
 */
name: string
change: ("installed" | "removed")
} | {
kind: "service"
/**
 * The name or the display name of the service. Exact, but ignoring case.
 */
name: string
/**
 * `failed` is a service that has ended with an error. It counts as `stopped` as well.
 */
state: ("stopped" | "running" | "failed")
/**
 * How long the service has been in that state, so that one that is restarted raises no alert. Devices look once a minute. Default 0.
 */
forMinutes?: number
} | {
kind: "reported"
/**
 * What the server reports by itself, such as backup_failed.
 */
alertKind: string
})
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupSources".
 */
export type BackupSources = (FileSources | ImageSources | DatabaseSources | MssqlSources | HypervSources | KvmSources)
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "RecoveryRestore".
 */
export type RecoveryRestore = ({
type: "files"
/**
 * Only snapshots of this backup configuration are used. Default: of any.
 */
configId?: string
/**
 * Files and folders, by their paths in the snapshot. Default: everything.
 */
selectedPaths?: string[]
/**
 * For a failover: a folder of the target device, to which the files come below their whole paths. Default: the paths that they had. A rehearsal uses a fresh folder of the agent.
 */
targetPath?: string
/**
 * For a failover and a failback: how existing files are treated.
 */
overwrite: ("never" | "ifNewer" | "always")
} | {
type: "vm"
/**
 * Only snapshots of this backup configuration are used. Default: of any.
 */
configId?: string
/**
 * For a host of KVM: the id or the name of one of its guests. A host with several guests is in the plan once for each. Default: the machine of the device itself, or where only its guests are backed up, the only one.
 */
machine?: string
/**
 * Default: the name of the guest or of the device.
 */
vmName?: string
memoryMb?: number
cpuCount?: number
/**
 * For a failover. Default: the network of its host. A rehearsal has no network at all, beside the ports that its checks need, which only its host reaches.
 */
network?: ({
type: "none"
} | {
type: "user"
/**
 * True: no network access. False: the machine reaches the networks and services of its host, with the address of the host.
 */
isIsolated: boolean
/**
 * Ports of the machine that are forwarded from the loopback address of its host.
 */
forwards: number[]
} | {
type: "bridge"
/**
 * Connects the machine to this bridge of the host, with its own address.
 */
bridge: string
})
} | {
type: "instant"
/**
 * Only snapshots of this backup configuration are used. Default: of any.
 */
configId?: string
/**
 * For a host of KVM: the id or the name of one of its guests. A host with several guests is in the plan once for each. Default: the machine of the device itself, or where only its guests are backed up, the only one.
 */
machine?: string
/**
 * Default: the name of the guest or of the device.
 */
vmName?: string
memoryMb?: number
cpuCount?: number
/**
 * For a failover. Default: the network of its host. A rehearsal has no network at all, beside the ports that its checks need, which only its host reaches.
 */
network?: ({
type: "none"
} | {
type: "user"
/**
 * True: no network access. False: the machine reaches the networks and services of its host, with the address of the host.
 */
isIsolated: boolean
/**
 * Ports of the machine that are forwarded from the loopback address of its host.
 */
forwards: number[]
} | {
type: "bridge"
/**
 * Connects the machine to this bridge of the host, with its own address.
 */
bridge: string
})
})
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "RecoveryCheck".
 */
export type RecoveryCheck = ({
type: "tcp"
/**
 * As the target device reaches it. Default: that device itself; of a machine: the machine. The rehearsal of a machine never uses it, because the machine has no network and the address may be that of its original.
 */
host?: string
/**
 * For a machine: its own port.
 */
port: number
/**
 * A check is repeated until it passes or this time has expired.
 */
timeoutSeconds: number
} | {
type: "http"
/**
 * As the target device reaches it. Default: that device itself; of a machine: the machine. The rehearsal of a machine never uses it, because the machine has no network and the address may be that of its original.
 */
host?: string
port: number
path: string
/**
 * Over TLS. The certificate is not verified.
 */
secure: boolean
/**
 * Default: any status from 200 to 399.
 */
expectStatus?: number
/**
 * Text that the first 64 KiB of the answer must contain.
 */
contains?: string
/**
 * A check is repeated until it passes or this time has expired.
 */
timeoutSeconds: number
} | {
type: "script"
/**
 * A script that runs on the target device, once, and must end with exit code 0. Its variables: PARAM_EXECUTION_TYPE, PARAM_FOLDER with the folder of restored files, and PARAM_PORT_<port> with the port of the device at which a port of a machine is reached. To name a script in a plan needs scripts:execute. Executions run the version that the script has when it is first saved in a group; later changes of the script count only when `repinScripts` of the group takes them. The version also runs when the script was deleted.
 */
scriptId: string
})

export interface Api {
/**
 * Sign in with e-mail address and password
 */
"POST /auth/login": {
body: {
email: string
password: string
}
response: (SignedIn | SecondFactorRequired)
}
/**
 * Finish a sign-in with the second factor
 */
"POST /auth/mfa/verify": {
body: {
tempToken: string
/**
 * The six digits of the authenticator app, or a recovery code.
 */
code: string
}
response: SignedIn
}
/**
 * Add the second factor to your session
 */
"POST /auth/mfa/step-up": {
body: {
/**
 * The six digits of the authenticator app, or a recovery code.
 */
code: string
}
response: Tokens
}
/**
 * Exchange the refresh token for a new access token
 */
"POST /auth/refresh": {
body: {
/**
 * For clients without cookies.
 */
refreshToken?: (string | null)
}
response: {
tokens: Tokens
refreshToken?: string
}
}
/**
 * End the session of the cookie or of the access token
 */
"POST /auth/logout": {
response: {
success: true
}
}
/**
 * Read the signed-in user and their permissions
 */
"GET /auth/me": {
response: {
user: {
id: string
email: string
name: string
}
scope: ("system" | "partner" | "organization")
partnerId?: string
orgId?: string
role: {
id: string
name: string
}
permissions: string[]
/**
 * null stands for all organizations.
 */
accessibleOrgIds: (string[] | null)
/**
 * Where this request came from, as the server and IP allowlists see it.
 */
clientIp: string
}
}
/**
 * Begin a sign-in with a passkey
 */
"POST /auth/passkeys/sign-in-options": {
response: PasskeyRequestOptions
}
/**
 * Sign in with a passkey
 */
"POST /auth/passkeys/sign-in": {
body: {
credential: {
id: string
rawId: string
type: "public-key"
response: {
clientDataJSON: string
authenticatorData: string
signature: string
userHandle?: (string | null)
}
}
}
response: SignedIn
}
/**
 * Begin to finish a sign-in with a passkey as the second factor
 */
"POST /auth/mfa/passkey-options": {
body: {
tempToken: string
}
response: PasskeyRequestOptions
}
/**
 * Finish a sign-in with a passkey as the second factor
 */
"POST /auth/mfa/passkey-verify": {
body: {
tempToken: string
credential: {
id: string
rawId: string
type: "public-key"
response: {
clientDataJSON: string
authenticatorData: string
signature: string
userHandle?: (string | null)
}
}
}
response: SignedIn
}
/**
 * Begin to add the second factor to your session with a passkey
 */
"POST /auth/mfa/step-up-options": {
response: PasskeyRequestOptions
}
/**
 * Add the second factor to your session with a passkey
 */
"POST /auth/mfa/step-up-passkey": {
body: {
credential: {
id: string
rawId: string
type: "public-key"
response: {
clientDataJSON: string
authenticatorData: string
signature: string
userHandle?: (string | null)
}
}
}
response: Tokens
}
/**
 * Read an invitation by its token
 */
"POST /auth/invite/preview": {
body: {
token: string
}
response: {
email: string
name: string
partnerName?: string
orgName?: string
}
}
/**
 * Accept an invitation and sign in
 */
"POST /auth/accept-invite": {
body: {
token: string
password: string
}
response: (SignedIn | SecondFactorRequired)
}
/**
 * Request a link to set a new password
 */
"POST /auth/forgot-password": {
body: {
email: string
}
response: {
success: true
}
}
/**
 * Set a new password with the mailed link
 */
"POST /auth/reset-password": {
body: {
token: string
password: string
}
response: {
success: true
}
}
/**
 * Change your password
 */
"POST /auth/change-password": {
body: {
currentPassword: string
newPassword: string
}
response: {
success: true
}
}
/**
 * List your sessions, last used first
 */
"GET /auth/sessions": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
}
response: {
data: {
id: string
createdAt: string
lastUsedAt: string
expiresAt: string
ipAddress: (string | null)
userAgent: (string | null)
/**
 * Whether it is the session of this request.
 */
current: boolean
}[]
pagination: Pagination
}
}
/**
 * End all your sessions except this one
 */
"DELETE /auth/sessions": {
response: {
success: true
ended: number
}
}
/**
 * End one of your sessions
 */
"DELETE /auth/sessions/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * Read which second factors your account has
 */
"GET /auth/mfa": {
response: SecondFactors
}
/**
 * Set up a second factor: get a secret for the authenticator app and ten recovery codes
 */
"POST /auth/mfa/setup": {
body: {
/**
 * Required if the account has a password. An account without a password needs a session that single sign-on opened in the last 10 minutes instead.
 */
currentPassword?: (string | null)
}
response: {
/**
 * The secret in Base32, for manual entry.
 */
secret: string
/**
 * The secret as a URL, for a QR code.
 */
otpAuthUrl: string
/**
 * Empty if the account has codes already, because it has a passkey.
 */
recoveryCodes: string[]
}
}
/**
 * Enable the authenticator app with a first code of it
 */
"POST /auth/mfa/enable": {
body: {
/**
 * The six digits of the authenticator app, or a recovery code.
 */
code: string
}
response: {
success: true
}
}
/**
 * Disable the authenticator app
 */
"POST /auth/mfa/disable": {
body: {
/**
 * Required if the account has a password. An account without a password needs a session that single sign-on opened in the last 10 minutes instead.
 */
currentPassword?: (string | null)
/**
 * The six digits of the authenticator app, or a recovery code. Without it, the second factor of the session must have been given in the last 15 minutes, such as with a passkey.
 */
code?: (string | null)
}
response: {
success: true
}
}
/**
 * Replace the recovery codes
 */
"POST /auth/mfa/recovery-codes": {
body: {
/**
 * Required if the account has a password. An account without a password needs a session that single sign-on opened in the last 10 minutes instead.
 */
currentPassword?: (string | null)
/**
 * The six digits of the authenticator app, or a recovery code. Without it, the second factor of the session must have been given in the last 15 minutes, such as with a passkey.
 */
code?: (string | null)
}
response: {
recoveryCodes: string[]
}
}
/**
 * List your passkeys, the oldest first
 */
"GET /auth/passkeys": {
response: {
data: Passkey[]
}
}
/**
 * Register a passkey
 */
"POST /auth/passkeys": {
body: {
name: string
credential: {
id: string
rawId: string
type: "public-key"
response: {
clientDataJSON: string
attestationObject: string
transports?: (string[] | null)
}
}
}
response: {
passkey: Passkey
/**
 * Ten, with the first second factor of the account; otherwise empty, because it has codes already.
 */
recoveryCodes: string[]
}
}
/**
 * Begin to register a passkey
 */
"POST /auth/passkeys/options": {
body: {
/**
 * Required if the account has a password. An account without a password needs a session that single sign-on opened in the last 10 minutes instead.
 */
currentPassword?: (string | null)
}
response: PasskeyCreationOptions
}
/**
 * Rename one of your passkeys
 */
"PATCH /auth/passkeys/{id}": {
params: {
id: string
}
body: {
name: string
}
response: Passkey
}
/**
 * Remove one of your passkeys
 */
"DELETE /auth/passkeys/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * List presets of well-known identity providers
 */
"GET /sso/presets": {
response: {
data: SsoPreset[]
}
}
/**
 * List providers
 */
"GET /sso/providers": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
/**
 * Lists only the providers of the caller’s own partner.
 */
scope?: "partner"
}
response: {
data: SsoProvider[]
pagination: Pagination
}
}
/**
 * Create a provider
 */
"POST /sso/providers": {
body: {
/**
 * Default: organization.
 */
ownerScope?: (("organization" | "partner") | null)
/**
 * The organization that owns the provider. Ignored if ownerScope is `partner`.
 */
orgId?: (string | null)
name: string
type: ("oidc" | "saml")
preset?: (string | null)
/**
 * The endpoints are read from the discovery document of this issuer.
 */
issuer?: (string | null)
clientId?: (string | null)
/**
 * Stored encrypted, and never returned.
 */
clientSecret?: (string | null)
tokenAuthMethod?: (("client_secret_basic" | "client_secret_post") | null)
/**
 * Separated by spaces, such as `openid profile email`.
 */
scopes?: (string | null)
authorizationUrl?: (string | null)
tokenUrl?: (string | null)
userInfoUrl?: (string | null)
jwksUrl?: (string | null)
entityId?: (string | null)
ssoUrl?: (string | null)
/**
 * One or several certificates as PEM. Several are useful while the provider changes its key.
 */
certificate?: (string | null)
attributeMapping?: (SsoAttributeMapping | null)
autoProvision?: (boolean | null)
/**
 * The role of an account that a first sign-in creates.
 */
defaultRoleId?: (string | null)
/**
 * Mail domains, separated by commas. Empty means all domains.
 */
allowedDomains?: (string | null)
/**
 * Can be true only after a successful sign-in with this provider.
 */
enforceSSO?: (boolean | null)
/**
 * If true, a second factor that the identity provider reports counts as a second factor of Muster.
 */
trustsIdpMfa?: (boolean | null)
/**
 * The ids of people who may sign in with a password although single sign-on is enforced.
 */
breakGlassUserIds?: (string[] | null)
}
response: SsoProvider
}
/**
 * Read a provider
 */
"GET /sso/providers/{id}": {
params: {
id: string
}
response: SsoProvider
}
/**
 * Change a provider
 */
"PATCH /sso/providers/{id}": {
params: {
id: string
}
body: {
name?: (string | null)
/**
 * The endpoints are read from the discovery document of this issuer.
 */
issuer?: (string | null)
clientId?: (string | null)
/**
 * Stored encrypted, and never returned.
 */
clientSecret?: (string | null)
tokenAuthMethod?: (("client_secret_basic" | "client_secret_post") | null)
/**
 * Separated by spaces, such as `openid profile email`.
 */
scopes?: (string | null)
authorizationUrl?: (string | null)
tokenUrl?: (string | null)
userInfoUrl?: (string | null)
jwksUrl?: (string | null)
entityId?: (string | null)
ssoUrl?: (string | null)
/**
 * One or several certificates as PEM. Several are useful while the provider changes its key.
 */
certificate?: (string | null)
attributeMapping?: (SsoAttributeMapping | null)
autoProvision?: (boolean | null)
/**
 * The role of an account that a first sign-in creates.
 */
defaultRoleId?: (string | null)
/**
 * Mail domains, separated by commas. Empty means all domains.
 */
allowedDomains?: (string | null)
/**
 * Can be true only after a successful sign-in with this provider.
 */
enforceSSO?: (boolean | null)
/**
 * If true, a second factor that the identity provider reports counts as a second factor of Muster.
 */
trustsIdpMfa?: (boolean | null)
/**
 * The ids of people who may sign in with a password although single sign-on is enforced.
 */
breakGlassUserIds?: (string[] | null)
}
response: SsoProvider
}
/**
 * Delete a provider
 */
"DELETE /sso/providers/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * Activate or deactivate a provider
 */
"POST /sso/providers/{id}/status": {
params: {
id: string
}
body: {
status: ("inactive" | "testing" | "active")
}
response: SsoProvider
}
/**
 * Test a provider, and optionally import the metadata of a SAML provider
 */
"POST /sso/providers/{id}/test": {
params: {
id: string
}
body: {
/**
 * The URL at which a SAML provider publishes its metadata.
 */
metadataUrl?: (string | null)
/**
 * The metadata of a SAML provider as XML, instead of metadataUrl.
 */
metadataXml?: (string | null)
}
response: SsoProviderTest
}
/**
 * Check if an organization has single sign-on
 */
"GET /sso/check/{orgId}": {
params: {
orgId: string
}
response: {
ssoEnabled: boolean
provider: ({
id: string
name: string
type: ("oidc" | "saml")
} | null)
enforceSSO: boolean
loginUrl: (string | null)
}
}
/**
 * Begin a sign-in with the provider of an organization
 */
"GET /sso/login/{orgId}": {
params: {
orgId: string
}
query: {
/**
 * The path of the dashboard that the browser opens after the sign-in.
 */
redirect?: string
}
response: null
}
/**
 * Begin a sign-in with the provider of a partner
 */
"GET /sso/login/partner/{partnerId}": {
params: {
partnerId: string
}
query: {
/**
 * The path of the dashboard that the browser opens after the sign-in.
 */
redirect?: string
}
response: null
}
/**
 * Finish a sign-in, when the browser returns from the identity provider
 */
"GET /sso/callback": {
response: null
}
/**
 * Exchange the code of a single sign-on for tokens
 */
"POST /sso/exchange": {
body: {
code: string
/**
 * The id of the person who is signed in. If the code is of another person, nothing happens, and the answer is 409: ask before you repeat the request without this field.
 */
signedInAs?: (string | null)
}
response: {
accessToken: string
refreshToken: string
expiresInSeconds: number
}
}
/**
 * Read the SAML metadata of Muster as a service provider
 */
"GET /sso/saml/metadata": {
query: {
/**
 * Ignored. Identity providers that need a separate metadata address for each entry can use it.
 */
providerId?: string
}
response: null
}
/**
 * Receive the response of a SAML identity provider
 */
"POST /sso/saml/acs": {
response: null
}
/**
 * List the domains of organizations
 */
"GET /sso/domains": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
}
response: {
data: SsoDomain[]
pagination: Pagination
}
}
/**
 * Create a domain, to prove that an organization owns it
 */
"POST /sso/domains": {
body: {
/**
 * Required in partner and system scope. In organization scope, the default is the caller’s organization.
 */
orgId?: (string | null)
domain: string
}
response: SsoDomain
}
/**
 * Read a domain
 */
"GET /sso/domains/{id}": {
params: {
id: string
}
response: SsoDomain
}
/**
 * Delete a domain
 */
"DELETE /sso/domains/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * Look up the DNS record of a domain, and verify the domain
 */
"POST /sso/domains/{id}/verify": {
params: {
id: string
}
response: SsoDomain
}
/**
 * List the providers that your account can be linked to
 */
"GET /sso/link/options": {
response: {
data: {
id: string
name: string
type: ("oidc" | "saml")
linked: boolean
}[]
}
}
/**
 * Begin to link your account to a provider
 */
"POST /sso/link/start/{providerId}": {
params: {
providerId: string
}
response: {
url: string
}
}
/**
 * List the identities that your account is linked to
 */
"GET /sso/identities": {
response: {
data: SsoIdentity[]
}
}
/**
 * Remove a link of your account
 */
"DELETE /sso/identities/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * Read the content of the login page
 */
"GET /auth/login-context": {
response: LoginContext
}
/**
 * Read the branding of the login page of the caller’s partner
 */
"GET /partners/me/login-branding": {
response: LoginBranding
}
/**
 * Replace the branding of the login page of the caller’s partner
 */
"PUT /partners/me/login-branding": {
body: {
/**
 * An https:// URL, or a base64 data: URI of a PNG, JPEG or WebP image of at most 256 kB.
 */
logoUrl?: (string | null)
accentColor?: (string | null)
headline?: (string | null)
}
response: LoginBranding
}
/**
 * Read whether people can register themselves
 */
"GET /auth/registration": {
response: {
/**
 * False where accounts are created by invitation only.
 */
enabled: boolean
}
}
/**
 * Register a provider with its first administrator
 */
"POST /auth/register-partner": {
body: {
companyName: string
name: string
email: string
password: string
acceptTerms: true
}
response: ({
user: {
id: string
email: string
name: string
mfaEnabled: boolean
}
tokens: Tokens
mfaRequired: false
partner: {
id: string
name: string
slug: string
}
} | {
success: true
message: string
})
}
/**
 * Register an account that can be invited
 */
"POST /auth/register": {
body: {
name: string
email: string
password: string
acceptTerms: true
}
response: {
success: true
message: string
}
}
/**
 * Confirm the address of a registration
 */
"POST /auth/verify-email": {
body: {
/**
 * The token of the mailed link.
 */
token: string
/**
 * The password chosen at registration.
 */
password: string
}
response: {
success: true
}
}
/**
 * List your API keys, newest first
 */
"GET /api-keys": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
}
response: {
data: ApiKey[]
pagination: Pagination
}
}
/**
 * Create an API key
 */
"POST /api-keys": {
body: {
/**
 * The key is good in this organization only.
 */
orgId?: (string | null)
name: string
/**
 * Permissions; none that its maker lacks.
 */
scopes: string[]
expiresAt?: (string | null)
/**
 * Requests an hour; default 1000.
 */
rateLimit?: (number | null)
}
response: {
id: string
/**
 * null: wherever its maker may go.
 */
orgId: (string | null)
createdBy: string
name: string
/**
 * The first characters, to tell keys apart.
 */
keyPrefix: string
scopes: string[]
/**
 * Requests an hour.
 */
rateLimit: number
expiresAt: (string | null)
revokedAt: (string | null)
/**
 * Up to a minute late.
 */
lastUsedAt: (string | null)
/**
 * Requests so far; up to a minute late.
 */
usageCount: number
createdAt: string
updatedAt: string
key: string
}
}
/**
 * Read an API key
 */
"GET /api-keys/{id}": {
params: {
id: string
}
response: ApiKey
}
/**
 * Change an API key of your own
 */
"PATCH /api-keys/{id}": {
params: {
id: string
}
body: {
name?: (string | null)
/**
 * Permissions; none that its maker lacks.
 */
scopes?: (string[] | null)
expiresAt?: (string | null)
/**
 * Requests an hour; default 1000.
 */
rateLimit?: (number | null)
}
response: ApiKey
}
/**
 * Revoke an API key
 */
"DELETE /api-keys/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * Replace the secret of an API key of your own
 */
"POST /api-keys/{id}/rotate": {
params: {
id: string
}
response: {
id: string
/**
 * null: wherever its maker may go.
 */
orgId: (string | null)
createdBy: string
name: string
/**
 * The first characters, to tell keys apart.
 */
keyPrefix: string
scopes: string[]
/**
 * Requests an hour.
 */
rateLimit: number
expiresAt: (string | null)
revokedAt: (string | null)
/**
 * Up to a minute late.
 */
lastUsedAt: (string | null)
/**
 * Requests so far; up to a minute late.
 */
usageCount: number
createdAt: string
updatedAt: string
key: string
}
}
/**
 * List users, by name
 */
"GET /users": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * Part of the name or the e-mail address.
 */
search?: string
/**
 * Only users of this organization.
 */
orgId?: string
status?: ("active" | "invited" | "disabled")
}
response: {
data: User[]
pagination: Pagination
}
}
/**
 * Read your own user record
 */
"GET /users/me": {
response: User
}
/**
 * Change your own name
 */
"PATCH /users/me": {
body: {
name: string
}
response: User
}
/**
 * Leave your partner or organization
 */
"DELETE /users/me": {
response: {
success: true
}
}
/**
 * Invite a user
 */
"POST /users/invite": {
body: {
email: string
name: string
roleId: string
/**
 * For users of a partner: which organizations they can access.
 */
orgAccess?: (("all" | "selected" | "none") | null)
/**
 * Used when orgAccess is selected.
 */
orgIds?: (string[] | null)
/**
 * Invites into this organization instead of the partner.
 */
orgId?: (string | null)
/**
 * Required in system scope for a role of a partner; in partner scope the own partner, if given.
 */
partnerId?: (string | null)
}
response: {
id: string
email: string
name: string
status: ("active" | "invited" | "disabled")
roleId: string
/**
 * Also sent by mail. Works once, for 7 days.
 */
inviteUrl: string
}
}
/**
 * Resend an invitation
 */
"POST /users/resend-invite": {
body: {
userId: string
}
response: {
id: string
email: string
name: string
status: ("active" | "invited" | "disabled")
roleId: string
/**
 * Also sent by mail. Works once, for 7 days.
 */
inviteUrl: string
}
}
/**
 * Read a user
 */
"GET /users/{id}": {
params: {
id: string
}
response: User
}
/**
 * Rename, disable or enable a user
 */
"PATCH /users/{id}": {
params: {
id: string
}
body: {
name?: (string | null)
status?: (("active" | "disabled") | null)
}
response: User
}
/**
 * Remove a user from their partner or organization, or withdraw an invitation
 */
"DELETE /users/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * Change a user’s role
 */
"POST /users/{id}/role": {
params: {
id: string
}
body: {
roleId: string
/**
 * For users of a partner: which organizations they can access.
 */
orgAccess?: (("all" | "selected" | "none") | null)
/**
 * Used when orgAccess is selected.
 */
orgIds?: (string[] | null)
}
response: User
}
/**
 * Remove the second factors of a user who has lost them
 */
"POST /users/{id}/mfa/reset": {
params: {
id: string
}
response: User
}
/**
 * List all permissions
 */
"GET /permissions/catalog": {
response: {
data: {
resource: string
actions: string[]
}[]
/**
 * Everything that a role can hold, wildcards included.
 */
permissions: string[]
}
}
/**
 * List roles, system roles first
 */
"GET /roles": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
scope?: ("system" | "partner" | "organization")
}
response: {
data: Role[]
pagination: Pagination
}
}
/**
 * Create a role of the caller’s partner or organization
 */
"POST /roles": {
body: {
name: string
description?: (string | null)
/**
 * Whom it is for; the caller’s own scope when left out.
 */
scope?: (("system" | "partner" | "organization") | null)
permissions: string[]
}
response: Role
}
/**
 * Read a role
 */
"GET /roles/{id}": {
params: {
id: string
}
response: Role
}
/**
 * Change a role
 */
"PATCH /roles/{id}": {
params: {
id: string
}
body: {
name?: (string | null)
description?: (string | null)
permissions?: (string[] | null)
}
response: Role
}
/**
 * Delete an unused role
 */
"DELETE /roles/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * Read the caller’s partner
 */
"GET /orgs/partners/me": {
response: Partner
}
/**
 * Change the name, billing address or settings of the caller’s partner
 */
"PATCH /orgs/partners/me": {
body: {
name?: (string | null)
billingEmail?: (string | null)
settings?: ({
timezone?: (string | null)
dateFormat?: (("MM/DD/YYYY" | "DD/MM/YYYY" | "YYYY-MM-DD") | null)
timeFormat?: (("12h" | "24h") | null)
language?: ("en" | null)
businessHours?: ({
preset?: (("24/7" | "business" | "extended" | "custom") | null)
custom?: ({
[k: string]: {
start: string
end: string
closed?: boolean
}
} | null)
} | null)
contact?: ({
name?: (string | null)
email?: (string | null)
phone?: (string | null)
website?: (string | null)
} | null)
security?: ({
/**
 * Empty: no restriction. It governs the partner’s users and API keys, not its customers’ users.
 */
ipAllowlist?: (string[] | null)
} | null)
organizationOrder?: (string[] | null)
agentUpdates?: ({
/**
 * A pin of an organization overrides the one of its partner, also with `latest`.
 */
pins?: ({
agent?: ((string | null) | null)
watchdog?: ((string | null) | null)
} | null)
policy?: (("auto" | "staged" | "manual") | null)
maintenanceWindow?: ({
/**
 * The days of UTC on which the window opens.
 */
days: ("mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun")[]
start: string
/**
 * In UTC; a window whose end lies before its start closes on the next day.
 */
end: string
} | null)
} | null)
} | null)
/**
 * Take an IP allowlist that does not hold the address this request comes from.
 */
force?: (boolean | null)
}
response: Partner
}
/**
 * List partners
 */
"GET /orgs/partners": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
}
response: {
data: Partner[]
pagination: Pagination
}
}
/**
 * Create a partner
 */
"POST /orgs/partners": {
body: {
name: string
slug: string
type?: (("msp" | "enterprise" | "internal") | null)
plan?: (("free" | "starter" | "community" | "pro" | "enterprise" | "unlimited") | null)
maxOrganizations?: (number | null)
maxDevices?: (number | null)
billingEmail?: (string | null)
settings?: ({
timezone?: (string | null)
dateFormat?: (("MM/DD/YYYY" | "DD/MM/YYYY" | "YYYY-MM-DD") | null)
timeFormat?: (("12h" | "24h") | null)
language?: ("en" | null)
businessHours?: ({
preset?: (("24/7" | "business" | "extended" | "custom") | null)
custom?: ({
[k: string]: {
start: string
end: string
closed?: boolean
}
} | null)
} | null)
contact?: ({
name?: (string | null)
email?: (string | null)
phone?: (string | null)
website?: (string | null)
} | null)
security?: ({
/**
 * Empty: no restriction. It governs the partner’s users and API keys, not its customers’ users.
 */
ipAllowlist?: (string[] | null)
} | null)
organizationOrder?: (string[] | null)
agentUpdates?: ({
/**
 * A pin of an organization overrides the one of its partner, also with `latest`.
 */
pins?: ({
agent?: ((string | null) | null)
watchdog?: ((string | null) | null)
} | null)
policy?: (("auto" | "staged" | "manual") | null)
maintenanceWindow?: ({
/**
 * The days of UTC on which the window opens.
 */
days: ("mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun")[]
start: string
/**
 * In UTC; a window whose end lies before its start closes on the next day.
 */
end: string
} | null)
} | null)
} | null)
ssoConfig?: ({
[k: string]: unknown
} | null)
}
response: Partner
}
/**
 * Read a partner
 */
"GET /orgs/partners/{id}": {
params: {
id: string
}
response: Partner
}
/**
 * Change a partner
 */
"PATCH /orgs/partners/{id}": {
params: {
id: string
}
body: {
name?: (string | null)
slug?: (string | null)
type?: (("msp" | "enterprise" | "internal") | null)
plan?: (("free" | "starter" | "community" | "pro" | "enterprise" | "unlimited") | null)
maxOrganizations?: (number | null)
maxDevices?: (number | null)
billingEmail?: (string | null)
settings?: ({
timezone?: (string | null)
dateFormat?: (("MM/DD/YYYY" | "DD/MM/YYYY" | "YYYY-MM-DD") | null)
timeFormat?: (("12h" | "24h") | null)
language?: ("en" | null)
businessHours?: ({
preset?: (("24/7" | "business" | "extended" | "custom") | null)
custom?: ({
[k: string]: {
start: string
end: string
closed?: boolean
}
} | null)
} | null)
contact?: ({
name?: (string | null)
email?: (string | null)
phone?: (string | null)
website?: (string | null)
} | null)
security?: ({
/**
 * Empty: no restriction. It governs the partner’s users and API keys, not its customers’ users.
 */
ipAllowlist?: (string[] | null)
} | null)
organizationOrder?: (string[] | null)
agentUpdates?: ({
/**
 * A pin of an organization overrides the one of its partner, also with `latest`.
 */
pins?: ({
agent?: ((string | null) | null)
watchdog?: ((string | null) | null)
} | null)
policy?: (("auto" | "staged" | "manual") | null)
maintenanceWindow?: ({
/**
 * The days of UTC on which the window opens.
 */
days: ("mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun")[]
start: string
/**
 * In UTC; a window whose end lies before its start closes on the next day.
 */
end: string
} | null)
} | null)
} | null)
ssoConfig?: ({
[k: string]: unknown
} | null)
status?: (("pending" | "active" | "suspended" | "churned") | null)
/**
 * Take an IP allowlist that does not hold the address this request comes from.
 */
force?: (boolean | null)
}
response: Partner
}
/**
 * Delete a partner (soft)
 */
"DELETE /orgs/partners/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * List all accessible organizations, by name or in the chosen order
 */
"GET /orgs/": {
response: {
data: Organization[]
}
}
/**
 * List organizations
 */
"GET /orgs/organizations": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
partnerId?: string
}
response: {
data: Organization[]
pagination: Pagination
}
}
/**
 * Create an organization
 */
"POST /orgs/organizations": {
body: {
name: string
slug: string
type?: (("customer" | "internal") | null)
status?: (("active" | "suspended" | "trial" | "churned") | null)
maxDevices?: (number | null)
settings?: ({
agentUpdates?: ({
/**
 * A pin of an organization overrides the one of its partner, also with `latest`.
 */
pins?: ({
agent?: ((string | null) | null)
watchdog?: ((string | null) | null)
} | null)
policy?: (("auto" | "staged" | "manual") | null)
maintenanceWindow?: ({
/**
 * The days of UTC on which the window opens.
 */
days: ("mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun")[]
start: string
/**
 * In UTC; a window whose end lies before its start closes on the next day.
 */
end: string
} | null)
} | null)
/**
 * By which the months of its reports begin. Default: UTC.
 */
timezone?: (string | null)
[k: string]: unknown
} | null)
ssoConfig?: ({
[k: string]: unknown
} | null)
contractStart?: (string | null)
contractEnd?: (string | null)
/**
 * Any JSON; null clears it.
 */
billingContact?: {
[k: string]: unknown
}
/**
 * Required in system scope; in partner scope the own partner, if given.
 */
partnerId?: (string | null)
}
response: Organization
}
/**
 * Choose the order in which organizations are listed
 */
"PATCH /orgs/organizations/order": {
body: {
organizationOrder: string[]
}
response: {
organizationOrder: string[]
}
}
/**
 * Read an organization
 */
"GET /orgs/organizations/{id}": {
params: {
id: string
}
response: Organization
}
/**
 * Change an organization
 */
"PATCH /orgs/organizations/{id}": {
params: {
id: string
}
body: {
name?: (string | null)
slug?: (string | null)
type?: (("customer" | "internal") | null)
status?: (("active" | "suspended" | "trial" | "churned") | null)
maxDevices?: (number | null)
settings?: ({
agentUpdates?: ({
/**
 * A pin of an organization overrides the one of its partner, also with `latest`.
 */
pins?: ({
agent?: ((string | null) | null)
watchdog?: ((string | null) | null)
} | null)
policy?: (("auto" | "staged" | "manual") | null)
maintenanceWindow?: ({
/**
 * The days of UTC on which the window opens.
 */
days: ("mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun")[]
start: string
/**
 * In UTC; a window whose end lies before its start closes on the next day.
 */
end: string
} | null)
} | null)
/**
 * By which the months of its reports begin. Default: UTC.
 */
timezone?: (string | null)
[k: string]: unknown
} | null)
ssoConfig?: ({
[k: string]: unknown
} | null)
contractStart?: (string | null)
contractEnd?: (string | null)
/**
 * Any JSON; null clears it.
 */
billingContact?: {
[k: string]: unknown
}
/**
 * Cannot be changed: taken only if it is the present one.
 */
partnerId?: (string | null)
}
response: Organization
}
/**
 * Delete an organization (soft)
 */
"DELETE /orgs/organizations/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * List sites of one or of all accessible organizations
 */
"GET /orgs/sites": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
/**
 * The same as orgId.
 */
organizationId?: string
}
response: {
data: Site[]
pagination: Pagination
}
}
/**
 * Create a site
 */
"POST /orgs/sites": {
body: {
name: string
timezone?: (string | null)
/**
 * Any JSON; null clears it.
 */
address?: {
[k: string]: unknown
}
/**
 * Any JSON; null clears it.
 */
contact?: {
[k: string]: unknown
}
settings?: ({
[k: string]: unknown
} | null)
orgId: string
}
response: Site
}
/**
 * Read a site
 */
"GET /orgs/sites/{id}": {
params: {
id: string
}
response: Site
}
/**
 * Change a site
 */
"PATCH /orgs/sites/{id}": {
params: {
id: string
}
body: {
name?: (string | null)
timezone?: (string | null)
/**
 * Any JSON; null clears it.
 */
address?: {
[k: string]: unknown
}
/**
 * Any JSON; null clears it.
 */
contact?: {
[k: string]: unknown
}
settings?: ({
[k: string]: unknown
} | null)
/**
 * Cannot be changed: taken only if it is the present one.
 */
orgId?: (string | null)
}
response: Site
}
/**
 * Delete a site for good
 */
"DELETE /orgs/sites/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * Enroll a device with an enrollment key
 */
"POST /agents/enroll": {
body: {
enrollmentKey: string
/**
 * The name of the machine, as its system has it now.
 */
hostname: string
osType: ("windows" | "macos" | "linux")
osVersion: string
osBuild?: (string | null)
architecture: ("x64" | "x86" | "arm64")
agentVersion: string
/**
 * A machine that enrolls again with the same id keeps its device, unless a connected device has it: then the request needs the token of that device (`Authorization: Bearer`). An id that many machines share, such as all zeros, is ignored.
 */
machineId?: (string | null)
hardware?: ({
manufacturer?: (string | null)
model?: (string | null)
serialNumber?: (string | null)
cpuModel?: (string | null)
cpuCores?: (number | null)
ramTotalMb?: (number | null)
diskTotalGb?: (number | null)
gpuModel?: (string | null)
} | null)
network?: ({
ipAddress?: (string | null)
publicIp?: (string | null)
macAddress?: (string | null)
/**
 * The hardware addresses of its interfaces. The first 32 are kept.
 */
macAddresses?: (string[] | null)
} | null)
capabilities?: (string[] | null)
}
response: {
agentId: string
deviceId: string
orgId: string
siteId: string
/**
 * Returned once; the server stores only its hash.
 */
token: string
/**
 * `pending`: the device must be approved before it gets any work.
 */
status?: ("enrolled" | "pending")
config: {
/**
 * The interval between heartbeats.
 */
heartbeatSeconds: number
/**
 * The keys whose releases the agent installs, and keys that those have signed.
 * 
 * Items: A key that signs releases.
 */
releaseKeys?: {
id: string
/**
 * Ed25519; PEM (SPKI).
 */
publicKey: string
/**
 * The id of the previous key.
 */
signedBy?: string
/**
 * The signature of the previous key: Ed25519 over the canonical JSON (RFC 8785) of `id`, `publicKey` and `purpose`, which is "muster-release-key"; base64url.
 */
signature?: string
}[]
/**
 * The absolute URL of the socket for agents.
 */
hubUrl: string
}
}
}
/**
 * List enrollment keys, newest first
 */
"GET /enrollment-keys": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
}
response: {
data: EnrollmentKey[]
pagination: Pagination
}
}
/**
 * Create an enrollment key
 */
"POST /enrollment-keys": {
body: {
orgId: string
/**
 * Devices go to this site; else to the first of the organization.
 */
siteId?: (string | null)
name: string
maxUsage?: (number | null)
expiresAt?: (string | null)
}
response: {
id: string
orgId: string
siteId: (string | null)
name: string
/**
 * The first characters, to tell keys apart.
 */
keyPrefix: string
usageCount: number
maxUsage: (number | null)
expiresAt: (string | null)
revokedAt: (string | null)
createdBy: (string | null)
createdAt: string
key: string
}
}
/**
 * Read an enrollment key
 */
"GET /enrollment-keys/{id}": {
params: {
id: string
}
response: EnrollmentKey
}
/**
 * Revoke an enrollment key
 */
"DELETE /enrollment-keys/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * Replace the value of an enrollment key
 */
"POST /enrollment-keys/{id}/rotate": {
params: {
id: string
}
response: {
id: string
orgId: string
siteId: (string | null)
name: string
/**
 * The first characters, to tell keys apart.
 */
keyPrefix: string
usageCount: number
maxUsage: (number | null)
expiresAt: (string | null)
revokedAt: (string | null)
createdBy: (string | null)
createdAt: string
key: string
}
}
/**
 * Send a heartbeat without a socket
 */
"POST /agents/{id}/heartbeat": {
params: {
id: string
}
body: {
/**
 * The time by the clock of the device.
 */
at: string
agentVersion: string
watchdogVersion?: (string | null)
/**
 * The name of the system, such as "Debian GNU/Linux 12 (bookworm)".
 */
osVersion?: (string | null)
osBuild?: (string | null)
uptimeSeconds?: (number | null)
metrics?: ({
/**
 * The average since the heartbeat before.
 */
cpuPercent: number
ramPercent: number
/**
 * The part of the system disk that is in use.
 */
diskPercent: number
} | null)
/**
 * The addresses of all external interfaces.
 */
ipAddresses?: (string[] | null)
/**
 * The total number, if more exist than are listed.
 */
ipAddressCount?: (number | null)
/**
 * The user who signed in last.
 */
lastUser?: (string | null)
/**
 * True if the system waits for a restart.
 */
pendingReboot?: (boolean | null)
/**
 * Whether the agent installs offered releases automatically.
 */
autoUpdate?: (boolean | null)
/**
 * The name of the machine, as its system has it now.
 */
hostname?: (string | null)
/**
 * Over HTTP: as in the handshake of a socket.
 */
bootId?: (string | null)
}
response: {
ok: true
/**
 * The time of the server.
 */
at: string
/**
 * When the next heartbeat is due.
 */
nextInMs: number
/**
 * The releases that the device should install; usually none.
 */
upgrade: {
/**
 * What to upgrade: `agent` or `watchdog`.
 */
component: string
version: string
/**
 * The address of the download.
 */
url: string
/**
 * The checksum of the download, in lower-case hexadecimal.
 */
sha256: string
/**
 * In bytes.
 */
size?: number
/**
 * Ed25519 over the canonical JSON (RFC 8785) of version, component, os, architecture, sha256 and size; base64url. An agent installs nothing without it.
 */
signature?: string
/**
 * The id of the key that made the signature.
 */
keyId?: string
/**
 * True if a pin names exactly this version: an agent then installs it even if it is lower than one that it has run.
 */
pinned?: boolean
/**
 * True if a user has requested it: an agent then tries it at once, even after a failure.
 */
requested?: boolean
}[]
/**
 * Present if the device waits for approval: until then it gets no work.
 */
isPending?: true
/**
 * Present if it has changed since the last heartbeat.
 */
config?: {
/**
 * The interval between heartbeats.
 */
heartbeatSeconds: number
/**
 * The keys whose releases the agent installs, and keys that those have signed.
 * 
 * Items: A key that signs releases.
 */
releaseKeys?: {
id: string
/**
 * Ed25519; PEM (SPKI).
 */
publicKey: string
/**
 * The id of the previous key.
 */
signedBy?: string
/**
 * The signature of the previous key: Ed25519 over the canonical JSON (RFC 8785) of `id`, `publicKey` and `purpose`, which is "muster-release-key"; base64url.
 */
signature?: string
}[]
}
}
}
/**
 * Get a new token
 */
"POST /agents/{id}/token/rotate": {
params: {
id: string
}
response: {
/**
 * Returned once. The previous token stays valid until this one is used.
 */
token: string
}
}
/**
 * Take the device out of service
 */
"POST /agents/{id}/unenroll": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * List releases
 */
"GET /agent-versions": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
component?: ("agent" | "watchdog" | "helper" | "backup")
os?: ("linux" | "windows" | "macos")
architecture?: ("x64" | "arm64")
}
response: {
data: AgentRelease[]
pagination: Pagination
}
}
/**
 * Read the promoted release of a platform
 */
"GET /agent-versions/latest": {
query: {
component: ("agent" | "watchdog" | "helper" | "backup")
os: ("linux" | "windows" | "macos")
architecture: ("x64" | "arm64")
}
response: AgentRelease
}
/**
 * List the keys that sign releases
 */
"GET /agent-versions/keys": {
response: {
/**
 * Oldest first.
 * 
 * Items: A key that signs releases.
 */
keys: {
id: string
/**
 * Ed25519; PEM (SPKI).
 */
publicKey: string
/**
 * The id of the previous key.
 */
signedBy?: string
/**
 * The signature of the previous key: Ed25519 over the canonical JSON (RFC 8785) of `id`, `publicKey` and `purpose`, which is "muster-release-key"; base64url.
 */
signature?: string
}[]
}
}
/**
 * List the versions that can be pinned
 */
"GET /agent-versions/pinnable": {
response: {
components: {
agent: {
/**
 * Highest first.
 */
versions: string[]
/**
 * The version that `latest` names; the highest one if platforms differ; null if nothing is promoted.
 */
promoted: (string | null)
}
watchdog: {
/**
 * Highest first.
 */
versions: string[]
/**
 * The version that `latest` names; the highest one if platforms differ; null if nothing is promoted.
 */
promoted: (string | null)
}
}
}
}
/**
 * Download the file of a release
 */
"GET /agent-versions/{version}/download": {
params: {
version: string
}
query: {
component: ("agent" | "watchdog" | "helper" | "backup")
os: ("linux" | "windows" | "macos")
architecture: ("x64" | "arm64")
}
response: null
}
/**
 * Publish a release
 */
"PUT /agent-versions/{version}/files/{component}/{os}/{architecture}": {
params: {
component: ("agent" | "watchdog" | "helper" | "backup")
os: ("linux" | "windows" | "macos")
architecture: ("x64" | "arm64")
version: string
}
query: {
notes?: string
}
response: AgentRelease
}
/**
 * Promote a version
 */
"POST /agent-versions/promote": {
body: {
version: string
/**
 * Absent: every component that has this version.
 */
component?: (("agent" | "watchdog" | "helper" | "backup") | null)
}
response: {
promoted: {
component: ("agent" | "watchdog" | "helper" | "backup")
os: ("linux" | "windows" | "macos")
architecture: ("x64" | "arm64")
version: string
}[]
/**
 * The versions that were promoted on these platforms before.
 */
demoted: {
component: ("agent" | "watchdog" | "helper" | "backup")
os: ("linux" | "windows" | "macos")
architecture: ("x64" | "arm64")
version: string
}[]
}
}
/**
 * Delete a release
 */
"DELETE /agent-versions/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * Register a release of GitHub
 */
"POST /agent-versions/sync-github": {
query: {
/**
 * Absent: the latest stable release.
 */
version?: string
}
response: {
version: string
/**
 * The files that are registered, now or before, such as `agent:linux/x64`.
 */
synced: string[]
/**
 * Files that are not registered. While there is one, the version does not promote itself.
 */
failed: {
file: string
reason: string
}[]
}
}
/**
 * Installer for Linux and macOS
 */
"GET /install.sh": {
query: {
/**
 * An enrollment key, which is then part of the script.
 */
key?: string
}
response: null
}
/**
 * Installer for Windows
 */
"GET /install.ps1": {
query: {
/**
 * An enrollment key, which is then part of the script.
 */
key?: string
}
response: null
}
/**
 * Read how the agents of an organization are upgraded
 */
"GET /orgs/organizations/{id}/agent-updates": {
params: {
id: string
}
response: EffectiveAgentUpdates
}
/**
 * Read why the agent of a device is not upgraded
 */
"GET /devices/{id}/upgrades": {
params: {
id: string
}
response: {
data: DeviceUpgrade[]
}
}
/**
 * Upgrade a device now
 */
"POST /devices/{id}/upgrades": {
params: {
id: string
}
body: {
/**
 * Default: the first that can be upgraded.
 */
component?: (("agent" | "watchdog") | null)
}
response: DeviceUpgrade
}
/**
 * Report as the watchdog of a device
 */
"POST /agents/{id}/watchdog-report": {
params: {
id: string
}
body: {
watchdogVersion: string
/**
 * The release of the agent that the watchdog runs.
 */
agentVersion?: (string | null)
/**
 * `silent`: its event loop does not answer. `crash_loop`: it exits again and again.
 */
agentState: ("running" | "restarting" | "silent" | "crash_loop" | "stopped")
/**
 * How the agent last exited, as text for people.
 */
message?: (string | null)
/**
 * Phases that the agent could not report, in the order in which they happened.
 */
updates: {
/**
 * The component that is updated, such as `agent`.
 */
component: string
targetVersion: string
/**
 * `trial`: the new release runs and must prove itself; a server also infers this from the reported version. `completed`: the trial has ended well. Only the program that ends the trial on the machine may report it, never the new release itself.
 */
phase: ("downloading" | "verifying" | "installing" | "restarting" | "trial" | "completed" | "failed" | "rolled_back")
/**
 * Why the update has failed.
 */
error?: (string | null)
/**
 * The error code, such as `CHECKSUM_MISMATCH`.
 */
code?: (string | null)
/**
 * The version that ran before.
 */
fromVersion?: (string | null)
/**
 * One value for all phases of one attempt, so that a report that arrives twice counts once.
 */
attemptId?: (string | null)
/**
 * With `failed` and `rolled_back`: how long the device waits before it tries the release again. The server offers it again no earlier.
 */
retryInSeconds?: (number | null)
}[]
}
response: {
ok: true
}
}
/**
 * List rollouts
 */
"GET /agent-rollouts": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
component?: ("agent" | "watchdog")
/**
 * `paused` by a person, `halted` by failures; both can be resumed. `aborted` cannot.
 */
state?: ("running" | "paused" | "halted" | "aborted" | "completed")
}
response: {
data: AgentRollout[]
pagination: Pagination
}
}
/**
 * Start a rollout
 */
"POST /agent-rollouts": {
body: {
version: string
component?: (("agent" | "watchdog") | null)
/**
 * Shares of the fleet, which sum to at most 100. Left out: up to 1, 5, 20, 50 and 100 percent, the first wave with at least a tenth of the fleet or 100 devices.
 */
waves?: ({
/**
 * The share of the fleet that this wave adds to the waves before it.
 */
percent: number
/**
 * How long the wave is observed before the next one opens.
 */
soakMinutes: number
}[] | null)
haltWhen?: ({
/**
 * Halt when so large a share of the devices that have finished failed, and at least two.
 */
failedPercent?: (number | null)
/**
 * How long a device may be unheard of after its upgrade before it counts as silent.
 */
silentMinutes?: (number | null)
/**
 * The share of failures counts when so many devices have finished, or all that have begun.
 */
minDevices?: (number | null)
} | null)
}
response: AgentRolloutDetails
}
/**
 * Read a rollout
 */
"GET /agent-rollouts/{id}": {
params: {
id: string
}
response: AgentRolloutDetails
}
/**
 * Pause a rollout
 */
"POST /agent-rollouts/{id}/pause": {
params: {
id: string
}
response: AgentRolloutDetails
}
/**
 * Resume a rollout that is paused or halted
 */
"POST /agent-rollouts/{id}/resume": {
params: {
id: string
}
response: AgentRolloutDetails
}
/**
 * Abort a rollout
 */
"POST /agent-rollouts/{id}/abort": {
params: {
id: string
}
response: AgentRolloutDetails
}
/**
 * List devices
 */
"GET /devices": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
siteId?: string
groupId?: string
status?: ("online" | "offline" | "maintenance" | "updating" | "pending" | "quarantined" | "decommissioned")
osType?: ("windows" | "macos" | "linux")
/**
 * Only devices that match a saved filter.
 */
filterId?: string
/**
 * Part of the host name or display name, ignoring case.
 */
search?: string
/**
 * Tags separated by commas. Only devices with all of them match.
 */
tags?: string
/**
 * Devices without a value come last in both orders.
 */
sort?: ("hostname" | "displayName" | "status" | "lastSeenAt" | "enrolledAt" | "createdAt" | "updatedAt" | "osType" | "osVersion" | "architecture" | "agentVersion" | "cpuPercent" | "ramPercent" | "diskPercent")
order?: ("asc" | "desc")
}
response: {
data: Device[]
pagination: Pagination
}
}
/**
 * Read a few properties of many devices
 */
"GET /devices/columns": {
query: {
/**
 * Any of osVersion, osBuild, architecture, watchdogVersion, lastUser, ipAddress, publicIp, macAddress, lastIp, manufacturer, model, serialNumber, cpuModel, cpuCores, ramTotalMb, diskTotalGb, gpuModel, tags, groups, autoUpdate, enrolledAt, separated by commas.
 */
columns?: string
/**
 * Keys of up to 20 custom fields, separated by commas.
 */
customFields?: string
orgId?: string
siteId?: string
/**
 * `nextAfter` of the page before.
 */
after?: string
/**
 * Default and largest: 1000.
 */
limit?: string
}
response: DeviceColumns
}
/**
 * Read a device
 */
"GET /devices/{id}": {
params: {
id: string
}
response: Device
}
/**
 * Change a device
 */
"PATCH /devices/{id}": {
params: {
id: string
}
body: {
displayName?: (string | null)
/**
 * All tags of the device.
 */
tags?: (string[] | null)
/**
 * Values by custom field key: null removes a value, and values that are left out stay.
 */
customFields?: ({
[k: string]: unknown
} | null)
/**
 * Also sent to the agent, which stores it.
 */
autoUpdate?: (boolean | null)
/**
 * Another site of the organization.
 */
siteId?: (string | null)
}
response: Device
}
/**
 * Decommission a device
 */
"DELETE /devices/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * Change many devices at once
 */
"POST /devices/bulk": {
body: {
deviceIds: string[]
action: ({
type: "tags"
add?: (string[] | null)
remove?: (string[] | null)
} | {
type: "maintenance"
enabled: boolean
/**
 * When maintenance ends automatically. Without it, a user has to end it.
 */
until?: (string | null)
} | {
type: "site"
siteId: string
} | {
type: "decommission"
} | {
type: "customFields"
/**
 * Values by custom field key: null removes a value, and values that are left out stay.
 */
set: {
[k: string]: unknown
}
} | {
type: "autoUpdate"
enabled: boolean
})
}
response: {
/**
 * In the order of the request, with each device once.
 */
results: {
deviceId: string
ok: boolean
code?: string
message?: string
}[]
succeeded: number
failed: number
}
}
/**
 * Switch the automatic upgrades of a device on or off
 */
"POST /devices/{id}/auto-update": {
params: {
id: string
}
body: {
enabled: boolean
}
response: Device
}
/**
 * Start or end maintenance
 */
"POST /devices/{id}/maintenance": {
params: {
id: string
}
body: {
enabled: boolean
/**
 * When maintenance ends automatically. Without it, a user has to end it.
 */
until?: (string | null)
}
response: Device
}
/**
 * Approve a device that waits for approval
 */
"POST /devices/{id}/approve": {
params: {
id: string
}
body: {
/**
 * The device that this machine replaces: its record, history, groups and backups continue with this machine, and its own token ends.
 */
replaces?: (string | null)
}
response: Device
}
/**
 * Put a decommissioned device back in service
 */
"POST /devices/{id}/restore": {
params: {
id: string
}
response: Device
}
/**
 * Move a device to another site or organization
 */
"POST /devices/{id}/move": {
params: {
id: string
}
body: {
/**
 * Another organization of the same partner; any organization in system scope.
 */
orgId?: (string | null)
siteId: string
}
response: {
device: Device
/**
 * Groups of the previous organization that the device has left.
 */
groupsLeft: {
id: string
name: string
}[]
/**
 * Keys that the new organization does not define with the same type.
 */
customFieldsDropped: string[]
}
}
/**
 * List custom fields by key
 */
"GET /custom-fields": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
}
response: {
data: CustomField[]
pagination: Pagination
}
}
/**
 * Define a custom field
 */
"POST /custom-fields": {
body: {
name: string
/**
 * `date` is a day or a time in ISO 8601; `list` is a list of texts.
 */
type: ("string" | "number" | "boolean" | "date" | "list")
description?: (string | null)
orgId: string
/**
 * Unique within the organization; cannot be changed.
 */
key: string
}
response: CustomField
}
/**
 * Read a custom field
 */
"GET /custom-fields/{id}": {
params: {
id: string
}
response: CustomField
}
/**
 * Change a custom field
 */
"PATCH /custom-fields/{id}": {
params: {
id: string
}
body: {
name?: (string | null)
/**
 * Can only be changed while no device has a value.
 */
type?: (("string" | "number" | "boolean" | "date" | "list") | null)
description?: (string | null)
}
response: CustomField
}
/**
 * Delete a custom field and its values on all devices
 */
"DELETE /custom-fields/{id}": {
params: {
id: string
}
response: {
success: true
/**
 * Number of devices whose value was removed.
 */
devicesChanged: number
}
}
/**
 * Report the inventory of the device
 */
"POST /agents/{id}/inventory": {
params: {
id: string
}
body: {
hardware?: ({
manufacturer?: (string | null)
model?: (string | null)
serialNumber?: (string | null)
cpuModel?: (string | null)
cpuCores?: (number | null)
ramTotalMb?: (number | null)
diskTotalGb?: (number | null)
gpuModel?: (string | null)
} | null)
network?: ({
ipAddress?: (string | null)
publicIp?: (string | null)
macAddress?: (string | null)
/**
 * The hardware addresses of its interfaces. The first 32 are kept.
 */
macAddresses?: (string[] | null)
} | null)
interfaces?: ({
name: string
macAddress?: (string | null)
ipAddresses?: (string[] | null)
/**
 * The total number, if more exist than are listed.
 */
addressCount?: (number | null)
/**
 * True for the interface of the default route: one at most.
 */
isPrimary?: (boolean | null)
}[] | null)
/**
 * A name may occur in several versions. Duplicates of a name and version count once.
 */
software?: ({
name: string
version?: (string | null)
publisher?: (string | null)
installedAt?: (string | null)
/**
 * The source that lists it, such as `dpkg`.
 */
source?: (string | null)
}[] | null)
lastUser?: (string | null)
/**
 * Sources that could not be read. Their entries of an earlier inventory are kept, so software must name its source.
 */
failed?: ({
/**
 * Such as `snap`, `interfaces` or `mariadb`.
 */
source: string
/**
 * For people.
 */
message: string
}[] | null)
collectedAt: string
}
response: {
ok: true
/**
 * How many values have changed. If all are 0, only the time of the collection was stored.
 */
changed: {
hardware: number
network: number
interfaces: number
lastUser: number
/**
 * New titles, and further versions of known ones.
 */
installed: number
/**
 * Titles with another version.
 */
updated: number
removed: number
/**
 * Titles of which only the publisher or the date has changed.
 */
corrected: number
}
}
}
/**
 * Read the hardware and network of a device
 */
"GET /devices/{id}/inventory": {
params: {
id: string
}
response: DeviceInventory
}
/**
 * List the software installed on a device, by name
 */
"GET /devices/{id}/software": {
params: {
id: string
}
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * Part of the name, ignoring case.
 */
search?: string
}
response: {
data: InstalledSoftware[]
pagination: Pagination
}
}
/**
 * List software changes on a device, newest first
 */
"GET /devices/{id}/software/changes": {
params: {
id: string
}
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * Part of the name, ignoring case.
 */
search?: string
/**
 * Any of installed, updated, removed, separated by commas.
 */
change?: string
}
response: {
data: SoftwareChange[]
pagination: Pagination
}
}
/**
 * List the software installed in the fleet, by name, with device counts by version
 */
"GET /software": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * Part of the name, ignoring case.
 */
search?: string
orgId?: string
}
response: {
data: SoftwareTitle[]
pagination: Pagination
}
}
/**
 * List the devices that have a title, with its versions and since when, by name
 */
"GET /software/installations": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * The whole name, as the list of software has it.
 */
name: string
/**
 * Only this version; empty for an unknown one.
 */
version?: string
orgId?: string
}
response: {
data: SoftwareInstallation[]
pagination: Pagination
}
}
/**
 * List the services of a device, by name
 */
"GET /devices/{id}/services": {
params: {
id: string
}
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * Part of the name or of the display name, ignoring case.
 */
search?: string
/**
 * Any of running, stopped, failed, starting, stopping, paused, separated by commas.
 */
state?: string
}
response: {
data: DeviceService[]
pagination: Pagination
/**
 * What manages the services of the device; `none` on one without, null if its agent has never reported any.
 */
manager: (("systemd" | "windows" | "launchd" | "none") | null)
/**
 * When the device reported a change, or all of its services, last.
 */
reportedAt: (string | null)
/**
 * How many services the device has beyond those that are kept.
 */
unlisted: number
}
}
/**
 * Read what has happened to a device, newest first
 */
"GET /devices/{id}/timeline": {
params: {
id: string
}
query: {
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * Any of presence, alert, command, backup, upgrade, software, terminal, group, change, note, separated by commas.
 */
kinds?: string
/**
 * The value of `next` of an earlier answer.
 */
before?: string
}
response: Timeline
}
/**
 * List the notes about a device, pinned ones first, then the newest
 */
"GET /devices/{id}/notes": {
params: {
id: string
}
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
pinned?: ("true" | "false")
}
response: {
data: DeviceNote[]
pagination: Pagination
}
}
/**
 * Add a note about a device
 */
"POST /devices/{id}/notes": {
params: {
id: string
}
body: {
text: string
isPinned?: (boolean | null)
}
response: DeviceNote
}
/**
 * Change, pin or unpin a note about a device
 */
"PATCH /devices/{id}/notes/{noteId}": {
params: {
id: string
noteId: string
}
body: {
/**
 * Only the author can change it.
 */
text?: (string | null)
isPinned?: (boolean | null)
}
response: DeviceNote
}
/**
 * Delete a note about a device
 */
"DELETE /devices/{id}/notes/{noteId}": {
params: {
id: string
noteId: string
}
response: {
success: true
}
}
/**
 * List device groups of one or all accessible organizations
 */
"GET /groups": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
siteId?: string
/**
 * Part of the name, case-insensitive.
 */
search?: string
}
response: {
data: Group[]
pagination: Pagination
}
}
/**
 * Create a device group
 */
"POST /groups": {
body: {
type?: (("static" | "dynamic") | null)
/**
 * Required for dynamic groups: a saved filter of the organization.
 */
filterId?: (string | null)
/**
 * Unique within the organization, case-insensitive.
 */
name: string
description?: (string | null)
/**
 * The site that the group is filed under. Its devices may be at any site of the organization.
 */
siteId?: (string | null)
orgId: string
/**
 * Static groups only.
 */
deviceIds?: (string[] | null)
}
response: Group
}
/**
 * Read a device group
 */
"GET /groups/{id}": {
params: {
id: string
}
response: Group
}
/**
 * Change a device group
 */
"PATCH /groups/{id}": {
params: {
id: string
}
body: {
type?: (("static" | "dynamic") | null)
/**
 * Required for dynamic groups: a saved filter of the organization.
 */
filterId?: (string | null)
/**
 * Unique within the organization, case-insensitive.
 */
name?: (string | null)
description?: (string | null)
/**
 * The site that the group is filed under. Its devices may be at any site of the organization.
 */
siteId?: (string | null)
/**
 * Cannot be changed; accepted only if equal to the current one.
 */
orgId?: (string | null)
}
response: Group
}
/**
 * Delete a device group but not its devices
 */
"DELETE /groups/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * List the devices of a group
 */
"GET /groups/{id}/devices": {
params: {
id: string
}
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
siteId?: string
status?: ("online" | "offline" | "maintenance" | "updating" | "pending" | "quarantined" | "decommissioned")
osType?: ("windows" | "macos" | "linux")
/**
 * Only devices that match a saved filter.
 */
filterId?: string
/**
 * Part of the host name or display name, ignoring case.
 */
search?: string
/**
 * Tags separated by commas. Only devices with all of them match.
 */
tags?: string
/**
 * Devices without a value come last in both orders.
 */
sort?: ("hostname" | "displayName" | "status" | "lastSeenAt" | "enrolledAt" | "createdAt" | "updatedAt" | "osType" | "osVersion" | "architecture" | "agentVersion" | "cpuPercent" | "ramPercent" | "diskPercent")
order?: ("asc" | "desc")
}
response: {
data: Device[]
pagination: Pagination
}
}
/**
 * Add devices to a group
 */
"POST /groups/{id}/devices": {
params: {
id: string
}
body: {
deviceIds: string[]
}
response: {
/**
 * Devices that were not in the group before.
 */
added: number
/**
 * Devices in the group after the change, excluding decommissioned ones.
 */
total: number
}
}
/**
 * List membership changes of a group, newest first
 */
"GET /groups/{id}/changes": {
params: {
id: string
}
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
deviceId?: string
}
response: {
data: GroupChange[]
pagination: Pagination
}
}
/**
 * Remove devices from a group
 */
"POST /groups/{id}/devices/remove": {
params: {
id: string
}
body: {
deviceIds: string[]
}
response: {
/**
 * Devices that were in the group before.
 */
removed: number
/**
 * Devices in the group after the change, excluding decommissioned ones.
 */
total: number
}
}
/**
 * List saved filters of all accessible organizations, newest first
 */
"GET /filters": {
query: {
/**
 * Part of the name or description, case-insensitive.
 */
search?: string
}
response: {
data: {
id: string
orgId: string
name: string
description: (string | null)
conditions: ConditionGroup
createdBy: (string | null)
createdAt: string
updatedAt: string
}[]
total: number
}
}
/**
 * Save a filter
 */
"POST /filters": {
body: {
name: string
description?: (string | null)
conditions: ConditionGroup
/**
 * Required in partner and system scope; ignored in organization scope.
 */
orgId?: (string | null)
}
response: Filter
}
/**
 * Preview the devices that match conditions
 */
"POST /filters/preview": {
body: {
conditions: ConditionGroup
limit?: (number | null)
/**
 * Only devices of this organization. Default: of all that the caller can access.
 */
orgId?: (string | null)
/**
 * Only devices of this site.
 */
siteId?: (string | null)
}
response: {
data: {
/**
 * All matching devices, including those beyond the limit.
 */
totalCount: number
devices: {
id: string
hostname: string
displayName: (string | null)
osType: ("windows" | "macos" | "linux")
status: ("online" | "offline" | "maintenance" | "updating" | "pending" | "quarantined" | "decommissioned")
lastSeenAt: (string | null)
}[]
evaluatedAt: string
}
}
}
/**
 * Explain how conditions evaluate for one device
 */
"POST /filters/explain": {
body: {
conditions?: (ConditionGroup | null)
/**
 * Instead of conditions.
 */
filterId?: (string | null)
deviceId: string
}
response: {
data: {
deviceId: string
matched: boolean
/**
 * In order; at most the first 1000.
 */
conditions: {
path: string
field: string
operator: string
matched: boolean
/**
 * The value of the device that the condition saw; null: no value.
 */
value: {
[k: string]: unknown
}
/**
 * For a list: the number of its values, if more than are shown.
 */
valueCount?: number
}[]
/**
 * How many there are, where more than are listed.
 */
conditionCount?: number
evaluatedAt: string
}
}
}
/**
 * Read a saved filter
 */
"GET /filters/{id}": {
params: {
id: string
}
response: Filter
}
/**
 * Change a saved filter
 */
"PATCH /filters/{id}": {
params: {
id: string
}
body: {
name?: (string | null)
description?: (string | null)
conditions?: (ConditionGroup | null)
}
response: Filter
}
/**
 * Delete an unused saved filter
 */
"DELETE /filters/{id}": {
params: {
id: string
}
response: Filter
}
/**
 * Preview the devices that match a saved filter
 */
"POST /filters/{id}/preview": {
params: {
id: string
}
query: {
/**
 * 1 to 100; default 10.
 */
limit?: string
}
response: {
data: {
/**
 * All matching devices, including those beyond the limit.
 */
totalCount: number
devices: {
id: string
hostname: string
displayName: (string | null)
osType: ("windows" | "macos" | "linux")
status: ("online" | "offline" | "maintenance" | "updating" | "pending" | "quarantined" | "decommissioned")
lastSeenAt: (string | null)
}[]
evaluatedAt: string
}
}
}
/**
 * List the uses of a saved filter
 */
"GET /filters/{id}/usage": {
params: {
id: string
}
response: {
data: {
kind: string
id: string
name: string
}[]
}
}
/**
 * List scripts by name
 */
"GET /scripts": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * Only scripts that can run in this organization.
 */
orgId?: string
language?: ("bash" | "powershell" | "python")
/**
 * Part of the name, ignoring case.
 */
search?: string
}
response: {
data: Script[]
pagination: Pagination
}
}
/**
 * Create a script
 */
"POST /scripts": {
body: {
name: string
description?: (string | null)
language: ("bash" | "powershell" | "python")
content: string
osTypes?: (("windows" | "macos" | "linux")[] | null)
/**
 * Default 300.
 */
timeoutSeconds?: (number | null)
/**
 * What the script expects, at most 30. Runs and schedules with values that do not fit are refused, and get default values for what they leave out; values of other names are passed on.
 */
parameters?: ({
name: string
/**
 * A `boolean` is `true` or `false`. A `secret` is in SECRET_<name>, the others are in PARAM_<name>.
 */
type?: (("text" | "number" | "boolean" | "secret") | null)
description?: (string | null)
required?: (boolean | null)
defaultValue?: (string | null)
}[] | null)
/**
 * Leave it out in partner scope for a script of all organizations.
 */
orgId?: (string | null)
}
response: Script
}
/**
 * Read a script
 */
"GET /scripts/{id}": {
params: {
id: string
}
response: Script
}
/**
 * Change a script
 */
"PATCH /scripts/{id}": {
params: {
id: string
}
body: {
name?: (string | null)
description?: (string | null)
language?: (("bash" | "powershell" | "python") | null)
content?: (string | null)
osTypes?: (("windows" | "macos" | "linux")[] | null)
/**
 * Default 300.
 */
timeoutSeconds?: (number | null)
/**
 * What the script expects, at most 30. Runs and schedules with values that do not fit are refused, and get default values for what they leave out; values of other names are passed on.
 */
parameters?: ({
name: string
/**
 * A `boolean` is `true` or `false`. A `secret` is in SECRET_<name>, the others are in PARAM_<name>.
 */
type?: (("text" | "number" | "boolean" | "secret") | null)
description?: (string | null)
required?: (boolean | null)
defaultValue?: (string | null)
}[] | null)
}
response: Script
}
/**
 * Delete a script
 */
"DELETE /scripts/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * Run a script on devices
 */
"POST /scripts/{id}/execute": {
params: {
id: string
}
body: {
deviceIds?: (string[] | null)
/**
 * Instead of deviceIds: the devices that match a saved filter, at most 500.
 */
filterId?: (string | null)
/**
 * Environment variables of the script: PARAM_<name>.
 */
parameters?: ({
[k: string]: string
} | null)
/**
 * Environment variables of the script: SECRET_<name>. They are sealed until the command has ended, and never shown or logged.
 */
secrets?: ({
[k: string]: string
} | null)
}
response: {
/**
 * The id of the script run.
 */
executionId: string
commands: Command[]
/**
 * Devices on which the script was not started, and why.
 */
refused: {
deviceId: string
code: string
message: string
}[]
}
}
/**
 * Start a script run
 */
"POST /scripts/{id}/runs": {
params: {
id: string
}
body: {
target: DeviceTarget
/**
 * Only devices of this organization.
 */
orgId?: (string | null)
/**
 * Environment variables of the script: PARAM_<name>.
 */
parameters?: ({
[k: string]: string
} | null)
/**
 * Environment variables of the script: SECRET_<name>. They are sealed until the command has ended, and never shown or logged.
 */
secrets?: ({
[k: string]: string
} | null)
/**
 * How long the run waits for devices that are offline.
 */
ttlSeconds?: (number | null)
}
response: {
id: string
partnerId: string
/**
 * Those of its organizations that you can access.
 */
orgIds: string[]
/**
 * Null if the script was deleted.
 */
scriptId: (string | null)
/**
 * As it was called when the run was started.
 */
scriptName: string
language: ("bash" | "powershell" | "python")
/**
 * SHA-256 of the language, the timeout and the content that devices run, separated by line breaks.
 */
version: string
/**
 * `starting`: its commands are being added. `failed`: not all of them could be added. A run on whose devices the script has failed is `completed`.
 */
state: ("starting" | "running" | "cancelling" | "completed" | "cancelled" | "failed")
counts: ScriptRunCounts
/**
 * The number of its devices that you can access.
 */
total: number
/**
 * Null without the permission to execute scripts, because they may be secrets.
 */
parameters: ({
[k: string]: string
} | null)
secretNames: string[]
/**
 * Which devices were asked for; they were looked up once. Null of a repetition, and if you cannot access all organizations of the run.
 */
target: (DeviceTarget1 | null)
/**
 * The run of which it is a repetition.
 */
againOf: (string | null)
/**
 * The schedule that has started it.
 */
scheduleId: (string | null)
createdBy: (string | null)
createdByName: (string | null)
createdAt: string
/**
 * A device that was not reached by then does not run it.
 */
expiresAt: string
/**
 * When all of its commands were added.
 */
startedAt: (string | null)
/**
 * When the last of its devices ended; null while one has not.
 */
finishedAt: (string | null)
cancelRequestedAt: (string | null)
/**
 * Why its commands were not all added.
 */
error: (string | null)
/**
 * What devices run, also if the script was changed since. Null if you can neither see the script nor execute scripts.
 */
content: (string | null)
osTypes: ("windows" | "macos" | "linux")[]
timeoutSeconds: number
/**
 * Those of `target.deviceIds` that do not exist, or that you cannot access.
 */
unknownDeviceIds: string[]
}
}
/**
 * List script runs, newest first
 */
"GET /script-runs": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
scriptId?: string
scheduleId?: string
/**
 * Only runs that this person has started.
 */
createdBy?: string
/**
 * Only runs on devices of this organization.
 */
orgId?: string
state?: ("starting" | "running" | "cancelling" | "completed" | "cancelled" | "failed")
}
response: {
data: ScriptRun[]
pagination: Pagination
}
}
/**
 * Read a script run
 */
"GET /script-runs/{id}": {
params: {
id: string
}
response: ScriptRunDetails
}
/**
 * List what became of a script run on each device, by name
 */
"GET /script-runs/{id}/devices": {
params: {
id: string
}
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
outcome?: ("waiting" | "running" | "completed" | "failed" | "timed_out" | "cancelled" | "expired" | "refused")
/**
 * Only devices that have reported this.
 */
outputHash?: string
}
response: {
data: ScriptRunDevice[]
pagination: Pagination
}
}
/**
 * List the outputs of a script run, the most frequent first
 */
"GET /script-runs/{id}/outputs": {
params: {
id: string
}
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
}
response: {
data: ScriptRunOutputGroup[]
pagination: Pagination
}
}
/**
 * Read an output of a script run
 */
"GET /script-runs/{id}/outputs/{outputHash}": {
params: {
id: string
outputHash: string
}
response: ScriptRunOutput
}
/**
 * Cancel a script run
 */
"POST /script-runs/{id}/cancel": {
params: {
id: string
}
response: ScriptRunDetails
}
/**
 * Run the same version of a script again
 */
"POST /script-runs/{id}/run-again": {
params: {
id: string
}
body: {
/**
 * `failed`: those on which it failed, timed out or expired. Only devices that you can access.
 */
which: ("all" | "failed")
/**
 * Required again if the run had secrets, with the same names: they are not kept.
 */
secrets?: ({
[k: string]: string
} | null)
}
response: ScriptRunDetails
}
/**
 * List script schedules by name
 */
"GET /script-schedules": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * Only schedules of this organization, and those of its partner.
 */
orgId?: string
scriptId?: string
}
response: {
data: ScriptSchedule[]
pagination: Pagination
}
}
/**
 * Create a script schedule
 */
"POST /script-schedules": {
body: {
name: string
scriptId: string
/**
 * Default true.
 */
enabled?: (boolean | null)
/**
 * Minute, hour, day of the month, month and weekday, such as `30 2 * * 1-5`; at most every 5 minutes. A time that clocks skip stands for the first moment after it, and one that they show twice counts once.
 */
cron: string
/**
 * Of the clocks by which it is due.
 */
timezone: string
target: DeviceTarget2
/**
 * Environment variables of the script: PARAM_<name>. They are stored as they are, so they must hold no secrets.
 */
parameters?: ({
[k: string]: string
} | null)
/**
 * The `fingerprint` of the script that you have read: it, as it is, may be given the secrets. Refused with 409 if the script was changed since. Without it the secrets are given to the script as it is now, if it is another one than before or if all of them are given with this request.
 */
scriptFingerprint?: (string | null)
/**
 * For how long after its time it still runs on devices that were away, once, and after all servers were away. Default 1440.
 */
catchUpMinutes?: (number | null)
/**
 * Environment variables of the script: SECRET_<name>, at most 30 with 10000 characters together. They are stored sealed, handed to each run, and never shown.
 */
secrets?: ({
[k: string]: string
} | null)
/**
 * Leave it out in partner scope for the devices of all organizations.
 */
orgId?: (string | null)
}
response: ScriptSchedule
}
/**
 * Show when a script schedule would be due
 */
"POST /script-schedules/preview": {
body: {
/**
 * Minute, hour, day of the month, month and weekday, such as `30 2 * * 1-5`; at most every 5 minutes. A time that clocks skip stands for the first moment after it, and one that they show twice counts once.
 */
cron: string
timezone: string
}
response: {
/**
 * The next three times.
 */
data: string[]
}
}
/**
 * Read a script schedule
 */
"GET /script-schedules/{id}": {
params: {
id: string
}
response: ScriptSchedule
}
/**
 * Change, enable or disable a script schedule
 */
"PATCH /script-schedules/{id}": {
params: {
id: string
}
body: {
name?: (string | null)
scriptId?: (string | null)
/**
 * Default true.
 */
enabled?: (boolean | null)
/**
 * Minute, hour, day of the month, month and weekday, such as `30 2 * * 1-5`; at most every 5 minutes. A time that clocks skip stands for the first moment after it, and one that they show twice counts once.
 */
cron?: (string | null)
/**
 * Of the clocks by which it is due.
 */
timezone?: (string | null)
/**
 * Looked up at each run.
 */
target?: (DeviceTarget1 | null)
/**
 * Environment variables of the script: PARAM_<name>. They are stored as they are, so they must hold no secrets.
 */
parameters?: ({
[k: string]: string
} | null)
/**
 * The `fingerprint` of the script that you have read: it, as it is, may be given the secrets. Refused with 409 if the script was changed since. Without it the secrets are given to the script as it is now, if it is another one than before or if all of them are given with this request.
 */
scriptFingerprint?: (string | null)
/**
 * For how long after its time it still runs on devices that were away, once, and after all servers were away. Default 1440.
 */
catchUpMinutes?: (number | null)
/**
 * Environment variables of the script: SECRET_<name>, at most 30 with 10000 characters together. They are stored sealed, handed to each run, and never shown. A text sets or replaces a secret, null removes it, and what is left out stays. Those that stay and that another person has set must be given again, or removed, with any change of the script, the target, the parameters or the secrets.
 */
secrets?: ({
[k: string]: string | null
} | null)
}
response: ScriptSchedule
}
/**
 * Delete a script schedule
 */
"DELETE /script-schedules/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * List your views of a list, and those that colleagues share
 */
"GET /saved-views": {
query: {
list: string
}
response: {
data: SavedView[]
}
}
/**
 * Save a view
 */
"POST /saved-views": {
body: {
list: string
name: string
/**
 * What is chosen on the page, as its address has it.
 */
search: {
[k: string]: unknown
}
isShared?: (boolean | null)
}
response: SavedView
}
/**
 * Change one of your views
 */
"PATCH /saved-views/{id}": {
params: {
id: string
}
body: {
name?: (string | null)
/**
 * What is chosen on the page, as its address has it.
 */
search?: ({
[k: string]: unknown
} | null)
isShared?: (boolean | null)
}
response: SavedView
}
/**
 * Delete one of your views
 */
"DELETE /saved-views/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * Search devices, people, places, scripts, alerts and settings
 */
"GET /search": {
query: {
/**
 * Part of a name, title, description or address, case-insensitive. Wildcards are matched literally. A hardware address may be written in any way.
 */
q: string
/**
 * 1 to 50; default 20.
 */
limit?: string
}
response: {
results: SearchResult[]
}
}
/**
 * Send a command to many devices
 */
"POST /devices/bulk/commands": {
body: {
deviceIds: string[]
type: ("script.run" | "agent.set-auto-update" | "agent.refresh-inventory" | "agent.reboot")
payload?: ({
[k: string]: unknown
} | null)
/**
 * How long the command waits for a device that is offline.
 */
ttlSeconds?: (number | null)
}
response: {
commands: Command[]
/**
 * Devices that did not receive the command, and why.
 */
refused: {
deviceId: string
code: string
message: string
}[]
}
}
/**
 * List the commands of a device, newest first
 */
"GET /devices/{id}/commands": {
params: {
id: string
}
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
status?: ("queued" | "dispatched" | "accepted" | "running" | "succeeded" | "failed" | "cancelled" | "timed_out" | "expired")
}
response: {
data: Command[]
pagination: Pagination
}
}
/**
 * Send a command to a device
 */
"POST /devices/{id}/commands": {
params: {
id: string
}
body: {
type: ("script.run" | "agent.set-auto-update" | "agent.refresh-inventory" | "agent.reboot")
payload?: ({
[k: string]: unknown
} | null)
/**
 * How long the command waits for a device that is offline.
 */
ttlSeconds?: (number | null)
}
response: Command
}
/**
 * Read a command with its history
 */
"GET /commands/{id}": {
params: {
id: string
}
response: {
id: string
orgId: string
deviceId: string
type: string
/**
 * The name of the script that it runs; null if it runs none, or the script is gone.
 */
scriptName: (string | null)
status: ("queued" | "dispatched" | "accepted" | "running" | "succeeded" | "failed" | "cancelled" | "timed_out" | "expired")
/**
 * The reason for the status, if it is not obvious.
 */
reason: (string | null)
/**
 * Whether the command is queued for a device that is offline.
 */
waitsForDevice: boolean
createdBy: (string | null)
/**
 * How often it was sent to the device, which executes it once.
 */
attempt: number
cancelRequestedAt: (string | null)
progress: ({
/**
 * What the command does now, such as `running`.
 */
phase: string
percent?: number
/**
 * How much is done, in the unit of the command.
 */
done?: number
/**
 * How much there is to do, in the same unit.
 */
total?: number
/**
 * How much is done in a second.
 */
rate?: number
/**
 * The estimated time that remains.
 */
etaSeconds?: number
/**
 * How many files are done, if the command works on files.
 */
filesDone?: number
/**
 * How many files there are.
 */
filesTotal?: number
/**
 * The file that the command works on now.
 */
path?: string
/**
 * For people.
 */
message?: string
} | null)
/**
 * Depends on the type: `script.run` has exitCode, stdout, stderr and truncated.
 */
output: {
[k: string]: unknown
}
error: ({
code: string
message: string
} | null)
createdAt: string
/**
 * A command that has not reached the device by then expires.
 */
expiresAt: string
startedAt: (string | null)
finishedAt: (string | null)
/**
 * null without the permission to execute, because script parameters may be secrets.
 */
payload: {
[k: string]: unknown
}
/**
 * A result that the device sent after the command had already ended.
 */
lateResult: {
[k: string]: unknown
}
transitions: {
from: (("queued" | "dispatched" | "accepted" | "running" | "succeeded" | "failed" | "cancelled" | "timed_out" | "expired") | null)
to: ("queued" | "dispatched" | "accepted" | "running" | "succeeded" | "failed" | "cancelled" | "timed_out" | "expired")
reason: (string | null)
attempt: number
at: string
}[]
}
}
/**
 * Cancel a command
 */
"POST /commands/{id}/cancel": {
params: {
id: string
}
response: Command
}
/**
 * Read whether an organization allows terminals
 */
"GET /orgs/organizations/{id}/terminals": {
params: {
id: string
}
response: TerminalSettings
}
/**
 * Allow or forbid terminals of an organization’s devices
 */
"PUT /orgs/organizations/{id}/terminals": {
params: {
id: string
}
body: {
enabled: boolean
}
response: TerminalSettings
}
/**
 * List the terminals of a device that were opened, newest first
 */
"GET /devices/{id}/terminal-recordings": {
params: {
id: string
}
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
}
response: {
data: TerminalRecording[]
pagination: Pagination
}
}
/**
 * Download the recording of a terminal in the format asciicast v2
 */
"GET /devices/{id}/terminal-recordings/{recordingId}/cast": {
params: {
id: string
recordingId: string
}
response: null
}
/**
 * List the event logs of a device
 */
"GET /system-tools/devices/{deviceId}/eventlogs": {
params: {
deviceId: string
}
response: {
data: EventLogMetadata[]
}
}
/**
 * Read an event log of a device by its name, ignoring case
 */
"GET /system-tools/devices/{deviceId}/eventlogs/{name}": {
params: {
deviceId: string
name: string
}
response: {
data: EventLogMetadata
}
}
/**
 * List the entries of an event log, newest first
 */
"GET /system-tools/devices/{deviceId}/eventlogs/{name}/events": {
params: {
deviceId: string
name: string
}
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–500.
 */
limit?: string
/**
 * Any of information, warning, error, critical, verbose, separated by commas.
 */
level?: string
/**
 * The whole source, in any case.
 */
source?: string
eventId?: string
/**
 * A part of the message, in any case.
 */
text?: string
/**
 * Entries at or after: an instant, or a day (UTC).
 */
startTime?: string
/**
 * Entries at or before: an instant, or a day (UTC).
 */
endTime?: string
}
response: {
data: EventLogEntry[]
pagination: {
page: number
limit: number
total?: number
}
meta: {
/**
 * Records the device read to answer.
 */
scanned: number
/**
 * The device stopped before it had read everything asked for.
 */
truncated: boolean
/**
 * What is missing from the answer and why, in the words of the device.
 */
note?: string
/**
 * If the device stopped because its time was up: how far back it has looked. The first page of the same query with this as `endTime` goes on from there.
 */
lookedBackTo?: {
[k: string]: unknown
}
tookMs: number
}
}
}
/**
 * Read an entry of an event log
 */
"GET /system-tools/devices/{deviceId}/eventlogs/{name}/events/{recordId}": {
params: {
deviceId: string
name: string
recordId: string
}
response: {
data: EventLogEntry
}
}
/**
 * List the event logs of a device
 */
"GET /devices/{deviceId}/eventlogs/live": {
params: {
deviceId: string
}
response: {
data: EventLogMetadata[]
}
}
/**
 * Read an event log of a device by its name, ignoring case
 */
"GET /devices/{deviceId}/eventlogs/{name}": {
params: {
deviceId: string
name: string
}
response: {
data: EventLogMetadata
}
}
/**
 * List the entries of an event log, newest first
 */
"GET /devices/{deviceId}/eventlogs/{name}/events": {
params: {
deviceId: string
name: string
}
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–500.
 */
limit?: string
/**
 * Any of information, warning, error, critical, verbose, separated by commas.
 */
level?: string
/**
 * The whole source, in any case.
 */
source?: string
eventId?: string
/**
 * A part of the message, in any case.
 */
text?: string
/**
 * Entries at or after: an instant, or a day (UTC).
 */
startTime?: string
/**
 * Entries at or before: an instant, or a day (UTC).
 */
endTime?: string
}
response: {
data: EventLogEntry[]
pagination: {
page: number
limit: number
total?: number
}
meta: {
/**
 * Records the device read to answer.
 */
scanned: number
/**
 * The device stopped before it had read everything asked for.
 */
truncated: boolean
/**
 * What is missing from the answer and why, in the words of the device.
 */
note?: string
/**
 * If the device stopped because its time was up: how far back it has looked. The first page of the same query with this as `endTime` goes on from there.
 */
lookedBackTo?: {
[k: string]: unknown
}
tookMs: number
}
}
}
/**
 * Read an entry of an event log
 */
"GET /devices/{deviceId}/eventlogs/{name}/events/{recordId}": {
params: {
deviceId: string
name: string
recordId: string
}
response: {
data: EventLogEntry
}
}
/**
 * Store events of the device
 */
"PUT /agents/{id}/eventlogs": {
params: {
id: string
}
body: {
events: {
timestamp: string
level: ("info" | "warning" | "error" | "critical")
category: ("security" | "hardware" | "application" | "system")
/**
 * Cut to 255 characters.
 */
source: string
/**
 * Identifies the event within its source. A second event with the same id is ignored.
 */
eventId?: (string | null)
/**
 * Cut to 32768 characters.
 */
message: string
details?: ({
[k: string]: unknown
} | null)
}[]
}
response: {
success: true
/**
 * How many of the events were new.
 */
count: number
/**
 * The faults of the events that were left out: the first hundred.
 */
refused?: {
path: string
message: string
}[]
/**
 * How many events were left out, if any.
 */
refusedCount?: number
}
}
/**
 * List the stored events of a device, newest first
 */
"GET /devices/{id}/eventlogs": {
params: {
id: string
}
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–500.
 */
limit?: string
/**
 * Any of security, hardware, application, system, separated by commas.
 */
category?: string
/**
 * Any of info, warning, error, critical, separated by commas.
 */
level?: string
/**
 * Exact.
 */
source?: string
/**
 * Events at or after: an instant, or a day (UTC).
 */
startDate?: string
/**
 * Events at or before: an instant, or a day (UTC).
 */
endDate?: string
}
response: {
data: StoredEvent[]
pagination: Pagination
}
}
/**
 * Store lines of the agent’s own log
 */
"POST /agents/{id}/logs": {
params: {
id: string
}
body: {
logs: {
timestamp: string
level: ("debug" | "info" | "warn" | "error")
component: string
message: string
fields?: ({
[k: string]: unknown
} | null)
/**
 * Defaults to the present version of the device.
 */
agentVersion?: (string | null)
}[]
}
response: {
received: number
}
}
/**
 * List the log of a device’s agent, newest first
 */
"GET /devices/{id}/diagnostic-logs": {
params: {
id: string
}
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–1000.
 */
limit?: string
/**
 * Any of debug, info, warn, error, separated by commas.
 */
level?: string
/**
 * Exact.
 */
component?: string
/**
 * Lines at or after: an instant, or a day (UTC).
 */
since?: string
/**
 * Lines at or before: an instant, or a day (UTC).
 */
until?: string
/**
 * Part of the message, in any case.
 */
search?: string
}
response: {
logs: DiagnosticLog[]
total: number
limit: number
offset: number
}
}
/**
 * List event log questions, newest first
 */
"GET /event-log-questions": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * Only questions of this organization.
 */
orgId?: string
}
response: {
data: EventLogQuestion[]
pagination: Pagination
}
}
/**
 * Ask devices about an event log as they come back
 */
"POST /event-log-questions": {
body: {
/**
 * Leave it out in partner scope for devices of all organizations.
 */
orgId?: (string | null)
name?: (string | null)
target: DeviceTarget3
query: {
name: string
level?: (("information" | "warning" | "error" | "critical" | "verbose")[] | null)
/**
 * The whole source, in any case.
 */
source?: (string | null)
eventId?: (number | null)
/**
 * A part of the message, in any case.
 */
text?: (string | null)
/**
 * Entries at or after: an instant, or a day (UTC).
 */
startTime?: (string | null)
/**
 * Entries at or before: an instant, or a day (UTC).
 */
endTime?: (string | null)
}
/**
 * For how long devices are waited for.
 */
days?: (number | null)
/**
 * The most entries from each device, the newest ones.
 */
atMostRowsPerDevice?: (number | null)
}
response: EventLogQuestion
}
/**
 * Read an event log question, with the number of devices by outcome
 */
"GET /event-log-questions/{id}": {
params: {
id: string
}
response: EventLogQuestion
}
/**
 * Delete an event log question with its answers
 */
"DELETE /event-log-questions/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * List the devices of an event log question with their outcomes
 */
"GET /event-log-questions/{id}/devices": {
params: {
id: string
}
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * Any of waiting, asked, answered, failed, never_came, cancelled, separated by commas.
 */
outcome?: string
}
response: {
data: EventLogQuestionDevice[]
pagination: Pagination
}
}
/**
 * Read what a device has answered to an event log question
 */
"GET /event-log-questions/{id}/devices/{deviceId}": {
params: {
id: string
deviceId: string
}
response: EventLogAnswer
}
/**
 * Cancel an event log question
 */
"POST /event-log-questions/{id}/cancel": {
params: {
id: string
}
response: EventLogQuestion
}
/**
 * List the running processes of a device
 */
"GET /system-tools/devices/{deviceId}/processes": {
params: {
deviceId: string
}
response: {
/**
 * Those that use the processors most come first.
 */
data: MachineProcess[]
meta: {
/**
 * How many processes the machine has. More than are listed: those that use the most are.
 */
total: number
/**
 * When the device had answered, by the clock of the server.
 */
readAt: string
tookMs: number
}
}
}
/**
 * End a process of a device
 */
"POST /system-tools/devices/{deviceId}/processes/{pid}/end": {
params: {
deviceId: string
pid: string
}
body: {
/**
 * When the process started, as the list says. If the number belongs to another process now, the response is 409.
 */
startedAt: string
}
response: ProcessEnd
}
/**
 * List the services of a device as they are now
 */
"GET /system-tools/devices/{deviceId}/services": {
params: {
deviceId: string
}
response: {
/**
 * By name.
 */
data: LiveService[]
meta: {
manager: ("systemd" | "windows" | "launchd" | "none")
/**
 * How many services the machine has. At most 1000 are listed.
 */
total: number
/**
 * When the device had answered, by the clock of the server.
 */
readAt: string
tookMs: number
}
}
}
/**
 * Start a service of a device
 */
"POST /system-tools/devices/{deviceId}/services/{name}/start": {
params: {
deviceId: string
name: string
}
response: ServiceControlled
}
/**
 * Stop a service of a device
 */
"POST /system-tools/devices/{deviceId}/services/{name}/stop": {
params: {
deviceId: string
name: string
}
response: ServiceControlled
}
/**
 * Restart a service of a device
 */
"POST /system-tools/devices/{deviceId}/services/{name}/restart": {
params: {
deviceId: string
name: string
}
response: ServiceControlled
}
/**
 * Read the metric history of a device
 */
"GET /devices/{id}/metrics": {
params: {
id: string
}
query: {
/**
 * Default: a day before `to`.
 */
from?: string
/**
 * Default: now.
 */
to?: string
/**
 * Any of cpuPercent, ramPercent, swapPercent, load, uptimeSeconds, networkReceivedPerSecond, networkSentPerSecond, diskReadPerSecond, diskWrittenPerSecond, volumeUsedBytes, volumeTotalBytes, processCpuPercent, processRamPercent, separated by commas. Default: all.
 */
metrics?: string
/**
 * The most points of a series: the finest resolution with no more of them is chosen. Default 300, at most 1000.
 */
points?: string
}
response: DeviceMetrics
}
/**
 * List devices by their newest figures
 */
"GET /metrics/now": {
query: {
/**
 * Only devices of this organization.
 */
orgId?: string
/**
 * Only devices that the saved filter matches.
 */
filterId?: string
/**
 * By default, how full each volume is.
 */
metric?: ("volumePercent" | "cpuPercent" | "ramPercent" | "swapPercent" | "load" | "uptimeSeconds" | "networkReceivedPerSecond" | "networkSentPerSecond" | "diskReadPerSecond" | "diskWrittenPerSecond")
order?: ("asc" | "desc")
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
}
response: MetricsNow
}
/**
 * Read the newest figures of devices as OpenMetrics
 */
"GET /metrics/openmetrics": {
query: {
/**
 * Only devices of this organization.
 */
orgId?: string
/**
 * Only devices that the saved filter matches.
 */
filterId?: string
}
response: null
}
/**
 * Read the averages of the last 24 hours of many devices
 */
"GET /metrics/hours": {
query: {
/**
 * Up to 100 ids, separated by commas.
 */
deviceIds: string
metric: ("cpuPercent" | "ramPercent" | "diskPercent" | "swapPercent" | "load")
}
response: MetricHours
}
/**
 * Read for how long the metric history is kept
 */
"GET /orgs/organizations/{id}/metric-retention": {
params: {
id: string
}
response: MetricRetention
}
/**
 * Change for how long the metric history is kept
 */
"PUT /orgs/organizations/{id}/metric-retention": {
params: {
id: string
}
body: {
/**
 * For how many days figures of each minute are kept. 14 unless set otherwise.
 */
minuteDays: number
/**
 * For how many days figures of each quarter of an hour are kept. 90 unless set otherwise.
 */
quarterDays: number
/**
 * For how many days figures of each hour are kept. 730 unless set otherwise.
 */
hourDays: number
}
response: MetricRetention
}
/**
 * List alerts, newest first
 */
"GET /alerts": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * Any of active, acknowledged, resolved, separated by commas.
 */
status?: string
/**
 * Any of critical, high, medium, low, info, separated by commas.
 */
severity?: string
/**
 * Exact, such as device_offline.
 */
kind?: string
deviceId?: string
/**
 * Only those that this alert rule decided about.
 */
ruleId?: string
orgId?: string
/**
 * Raised at or after: an instant, or a day (UTC).
 */
from?: string
/**
 * Raised at or before: an instant, or a day (UTC).
 */
to?: string
/**
 * Part of the title or message, case-insensitive.
 */
search?: string
}
response: {
data: Alert[]
pagination: Pagination
}
}
/**
 * Count alerts by status and severity
 */
"GET /alerts/summary": {
query: {
orgId?: string
}
response: AlertSummary
}
/**
 * List what needs attention now, by cause
 */
"GET /alerts/causes": {
query: {
orgId?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
}
response: {
data: AlertCause[]
}
}
/**
 * Read an alert
 */
"GET /alerts/{id}": {
params: {
id: string
}
response: Alert
}
/**
 * Acknowledge or resolve many alerts
 */
"POST /alerts/bulk": {
body: {
alertIds: string[]
action: ("acknowledge" | "resolve")
note?: (string | null)
}
response: {
changed: number
outcomes: {
alertId: string
ok: boolean
/**
 * The current status; null if the alert does not exist.
 */
status: (("active" | "acknowledged" | "resolved") | null)
error?: {
code: string
message: string
}
}[]
}
}
/**
 * Acknowledge an alert
 */
"POST /alerts/{id}/acknowledge": {
params: {
id: string
}
body: {
note?: (string | null)
}
response: Alert
}
/**
 * Resolve an alert
 */
"POST /alerts/{id}/resolve": {
params: {
id: string
}
body: {
note?: (string | null)
}
response: Alert
}
/**
 * List alert rules by name
 */
"GET /alert-rules": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * Only rules that cover devices of this organization: its own, and those of its partner.
 */
orgId?: string
kind?: ("offline" | "metric" | "event" | "software" | "service" | "reported")
/**
 * Part of the name, case-insensitive.
 */
search?: string
}
response: {
data: AlertRule[]
pagination: Pagination
}
}
/**
 * Create an alert rule
 */
"POST /alert-rules": {
body: {
name: string
/**
 * Default true.
 */
enabled?: (boolean | null)
severity: ("critical" | "high" | "medium" | "low" | "info")
target: DeviceTarget1
condition: AlertCondition
/**
 * Whether the alert resolves by itself when the condition is no longer met. Default true.
 */
autoResolve?: (boolean | null)
/**
 * After an alert of the rule about a device was resolved, the rule raises none about it for this time.
 */
cooldownMinutes?: (number | null)
/**
 * Leave it out in partner scope for a rule of the partner.
 */
orgId?: (string | null)
}
response: AlertRule
}
/**
 * Show which alerts a rule would have raised in the last seven days
 */
"POST /alert-rules/preview": {
body: {
/**
 * Leave it out in partner scope for a rule of the partner.
 */
orgId?: (string | null)
target: DeviceTarget1
condition: AlertCondition
/**
 * After an alert of the rule about a device was resolved, the rule raises none about it for this time.
 */
cooldownMinutes?: (number | null)
}
response: AlertRulePreview
}
/**
 * Read an alert rule
 */
"GET /alert-rules/{id}": {
params: {
id: string
}
response: AlertRule
}
/**
 * Change, enable or disable an alert rule
 */
"PATCH /alert-rules/{id}": {
params: {
id: string
}
body: {
name?: (string | null)
enabled?: (boolean | null)
severity?: (("critical" | "high" | "medium" | "low" | "info") | null)
target?: (DeviceTarget1 | null)
condition?: (AlertCondition | null)
/**
 * Whether the alert resolves by itself when the condition is no longer met.
 */
autoResolve?: (boolean | null)
/**
 * After an alert of the rule about a device was resolved, the rule raises none about it for this time.
 */
cooldownMinutes?: (number | null)
}
response: AlertRule
}
/**
 * Delete an alert rule
 */
"DELETE /alert-rules/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * List maintenance windows by name
 */
"GET /maintenance-windows": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * Only windows of this organization and of its partner.
 */
orgId?: string
}
response: {
data: MaintenanceWindow[]
pagination: Pagination
}
}
/**
 * Plan a maintenance window
 */
"POST /maintenance-windows": {
body: {
/**
 * Shown with the devices, also to people of the organizations.
 */
name: string
target: DeviceTarget1
timezone: string
/**
 * On the clocks of the time zone. A time that they skip stands for the first moment after it; of a time that they show twice the first one counts.
 */
start: string
/**
 * Real minutes, also when clocks are set in between.
 */
durationMinutes: number
/**
 * Without it, the window happens once.
 */
repeat?: (MaintenanceRepeat | null)
/**
 * Default: both.
 */
suppress?: (MaintenanceSuppression | null)
/**
 * Leave it out in partner scope for the devices of all organizations.
 */
orgId?: (string | null)
}
response: MaintenanceWindow
}
/**
 * List the occurrences of all maintenance windows in a span of time
 */
"GET /maintenance-windows/occurrences": {
query: {
/**
 * Only windows of this organization and of its partner.
 */
orgId?: string
from: string
/**
 * At most 62 days after `from`.
 */
to: string
}
response: {
/**
 * By their beginning.
 */
data: {
startsAt: string
endsAt: string
windowId: string
orgId: (string | null)
name: string
suppress: MaintenanceSuppression
}[]
/**
 * False if there are more than 1,000 occurrences, or more than 1,000 windows.
 */
complete: boolean
}
}
/**
 * Preview the next occurrences of a maintenance window that is being planned
 */
"POST /maintenance-windows/preview": {
body: {
timezone: string
/**
 * On the clocks of the time zone. A time that they skip stands for the first moment after it; of a time that they show twice the first one counts.
 */
start: string
/**
 * Real minutes, also when clocks are set in between.
 */
durationMinutes: number
/**
 * Without it, the window happens once.
 */
repeat?: (MaintenanceRepeat | null)
}
response: {
/**
 * At most five: those in progress or ahead.
 */
data: MaintenanceOccurrence[]
}
}
/**
 * Read a maintenance window
 */
"GET /maintenance-windows/{id}": {
params: {
id: string
}
response: MaintenanceWindow
}
/**
 * Change a maintenance window
 */
"PATCH /maintenance-windows/{id}": {
params: {
id: string
}
body: {
/**
 * Shown with the devices, also to people of the organizations.
 */
name?: (string | null)
target?: (DeviceTarget1 | null)
timezone?: (string | null)
/**
 * On the clocks of the time zone. A time that they skip stands for the first moment after it; of a time that they show twice the first one counts.
 */
start?: (string | null)
/**
 * Real minutes, also when clocks are set in between.
 */
durationMinutes?: (number | null)
/**
 * Without it, the window happens once.
 */
repeat?: (MaintenanceRepeat | null)
/**
 * Default: both.
 */
suppress?: (MaintenanceSuppression | null)
}
response: MaintenanceWindow
}
/**
 * Delete a maintenance window
 */
"DELETE /maintenance-windows/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * End the occurrence of a maintenance window that is in progress
 */
"POST /maintenance-windows/{id}/end": {
params: {
id: string
}
response: MaintenanceWindow
}
/**
 * Restore a snapshot of a machine as a virtual machine
 */
"POST /backup/restore/as-vm": {
body: {
/**
 * A snapshot of a whole machine, or of machines of KVM.
 */
snapshotId: string
/**
 * For a snapshot of several machines: the id or the name of one.
 */
machine?: (string | null)
/**
 * The host, which is a device of the same organization. Default: the device that was backed up.
 */
targetDeviceId?: (string | null)
vmName: string
/**
 * Default: a network of its own, from which it reaches nothing, because its original may still run.
 */
network?: (({
type: "none"
} | {
type: "user"
/**
 * True: no network access. False: the machine reaches the networks and services of its host, with the address of the host.
 */
isIsolated?: (boolean | null)
/**
 * Ports of the machine that are forwarded from the loopback address of its host.
 */
forwards?: (number[] | null)
} | {
type: "bridge"
/**
 * Connects the machine to this bridge of the host, with its own address.
 */
bridge: string
}) | null)
/**
 * A folder of the host for its disks. Default: one of the agent.
 */
targetPath?: (string | null)
hypervisor: ("hyperv" | "kvm")
/**
 * Default: those of the machine that was backed up.
 */
vmSpecs?: ({
memoryMb?: (number | null)
cpuCount?: (number | null)
/**
 * The first disk grows to this size.
 */
diskSizeGb?: (number | null)
} | null)
/**
 * What the caller expects. Another one than that of the machine is refused, because it would not start.
 */
bootMode?: (("bios" | "uefi") | null)
/**
 * With `diskSizeGb`: the last partition of the first disk grows with it, and an ext file system in that. Default: no.
 */
grow?: (boolean | null)
/**
 * Of the disks. `vhdx`: they are files for Hyper-V in `targetPath`, and no machine is made of them.
 */
format?: (("qcow2" | "raw" | "vhdx") | null)
/**
 * Default: yes, and no for `vhdx`.
 */
start?: (boolean | null)
}
response: VmRestore
}
/**
 * Estimate what a virtual machine of a snapshot needs
 */
"POST /backup/restore/as-vm/estimate": {
body: {
snapshotId: string
/**
 * For a snapshot of several machines: the id or the name of one.
 */
machine?: (string | null)
}
response: VmEstimate
}
/**
 * Start a virtual machine straight from a snapshot
 */
"POST /backup/restore/instant-boot": {
body: {
/**
 * A snapshot of a whole machine, or of machines of KVM.
 */
snapshotId: string
/**
 * For a snapshot of several machines: the id or the name of one.
 */
machine?: (string | null)
/**
 * The host, which is a device of the same organization. Default: the device that was backed up.
 */
targetDeviceId?: (string | null)
vmName: string
/**
 * Default: a network of its own, from which it reaches nothing, because its original may still run.
 */
network?: (({
type: "none"
} | {
type: "user"
/**
 * True: no network access. False: the machine reaches the networks and services of its host, with the address of the host.
 */
isIsolated?: (boolean | null)
/**
 * Ports of the machine that are forwarded from the loopback address of its host.
 */
forwards?: (number[] | null)
} | {
type: "bridge"
/**
 * Connects the machine to this bridge of the host, with its own address.
 */
bridge: string
}) | null)
/**
 * A folder of the host for its disks. Default: one of the agent.
 */
targetPath?: (string | null)
hypervisor?: ("kvm" | null)
/**
 * Default: those of the machine that was backed up.
 */
vmSpecs?: ({
memoryMb?: (number | null)
cpuCount?: (number | null)
} | null)
}
response: VmRestore
}
/**
 * List virtual machines that run from snapshots, the newest first
 */
"GET /backup/restore/instant-boot/active": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
deviceId?: string
}
response: {
data: VmRestore[]
pagination: Pagination
}
}
/**
 * Make an instant boot permanent
 */
"POST /backup/restore/instant-boot/{id}/migrate": {
params: {
id: string
}
response: VmRestore
}
/**
 * Discard an instant boot, with everything that it has written
 */
"POST /backup/restore/instant-boot/{id}/discard": {
params: {
id: string
}
response: VmRestore
}
/**
 * Start an instant boot again
 */
"POST /backup/restore/instant-boot/{id}/start": {
params: {
id: string
}
response: VmRestore
}
/**
 * List virtual machines of snapshots, the newest first
 */
"GET /backup/restore/vm": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
/**
 * The host.
 */
deviceId?: string
kind?: ("as_vm" | "instant_boot")
}
response: {
data: VmRestore[]
pagination: Pagination
}
}
/**
 * Read a virtual machine of a snapshot
 */
"GET /backup/restore/vm/{id}": {
params: {
id: string
}
response: VmRestore
}
/**
 * Cancel what is done to a virtual machine of a snapshot
 */
"POST /backup/restore/vm/{id}/cancel": {
params: {
id: string
}
response: VmRestore
}
/**
 * List recovery tokens, the newest first
 */
"GET /backup/bmr/token": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
deviceId?: string
snapshotId?: string
}
response: {
data: RecoveryToken[]
pagination: Pagination
}
}
/**
 * Create a token that restores one image
 */
"POST /backup/bmr/token": {
body: {
/**
 * An image of whole disks.
 */
snapshotId: string
expiresInHours?: (number | null)
/**
 * `selective`: the disks of `targetConfig`. The others: every disk that it does not leave out.
 */
restoreType?: (("full" | "selective" | "bare_metal") | null)
targetConfig?: ({
/**
 * The disks of the image. Default: all.
 */
disks?: (string[] | null)
/**
 * The last partition reaches the end of a larger disk. Default: no.
 */
grow?: (boolean | null)
} | null)
}
response: CreatedRecoveryToken
}
/**
 * Read a recovery token, and how far its recovery is
 */
"GET /backup/bmr/token/{id}": {
params: {
id: string
}
response: RecoveryToken
}
/**
 * Revoke a recovery token
 */
"DELETE /backup/bmr/token/{id}": {
params: {
id: string
}
response: RecoveryToken
}
/**
 * Begin a recovery with its token, or go on with it
 */
"POST /backup/bmr/authenticate": {
body: {
token: string
/**
 * The session of an earlier start with this token, to be resumed.
 */
session?: (string | null)
machine: {
hostname: string
agentVersion: string
bootMode: ("bios" | "uefi")
}
}
response: {
recoveryId: string
/**
 * The secret with which this recovery is resumed; returned only at its first start.
 */
session?: string
sessionExpiresAt: string
snapshotId: string
machineName: string
details: ({
kind: "image"
/**
 * The disks of the device itself, or those of a guest on it.
 */
source: ("disk" | "kvm" | "hyperv")
/**
 * The name of the machine whose disks these are.
 */
machine: string
disks: {
name: string
sizeBytes: number
/**
 * Offset of its first byte in the only file of the snapshot.
 */
offset: number
sectorBytes: number
}[]
/**
 * Null: unknown, or the disks start in both ways.
 */
bootMode: (("bios" | "uefi") | null)
/**
 * `crash`: as after a power failure. `none`: read while the machine kept writing; data that changed meanwhile may be damaged.
 */
consistency: ("application" | "filesystem" | "crash" | "none")
memoryBytes: (number | null)
processors: (number | null)
/**
 * The operating system and its version.
 */
system: (string | null)
} | null)
targetConfig: {
/**
 * The disks of the image. Default: all.
 */
disks?: string[]
/**
 * The last partition reaches the end of a larger disk. Default: no.
 */
grow?: boolean
}
repository: {
path: string
user: string
secret: string
password: string
keyHint?: string
}
}
}
/**
 * Report how far a recovery is
 */
"POST /backup/bmr/progress": {
body: {
token: string
session: string
progress: {
phase: string
disk?: (string | null)
done: number
total: number
rate?: (number | null)
etaSeconds?: (number | null)
}
}
response: {
success: true
}
}
/**
 * Report how a recovery has ended
 */
"POST /backup/bmr/complete": {
body: {
token: string
session: string
result: {
status: ("completed" | "partial" | "failed")
bytesRestored: number
/**
 * True if everything was read back and every check has succeeded.
 */
validated: boolean
disks: {
disk: string
target: string
sha256: string
continuedFrom: number
checks: {
name: string
ok: boolean
message?: (string | null)
}[]
/**
 * The total number, if more exist than are listed.
 */
checkCount?: (number | null)
}[]
warnings: string[]
error: ({
code: string
message: string
} | null)
}
}
response: {
success: true
}
}
/**
 * List the machines of Hyper-V on all devices
 */
"GET /backup/hyperv/vms": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
deviceId?: string
/**
 * True: connected devices are asked first, for at most 30 seconds: the named one, or the 20 that were asked longest ago. What a device does not answer stays as it was.
 */
refresh?: ("true" | "false")
}
response: {
data: FoundMachine[]
pagination: Pagination
}
}
/**
 * List the machines of Hyper-V on a device
 */
"GET /backup/hyperv/vms/{deviceId}": {
params: {
deviceId: string
}
query: {
/**
 * True: the device is asked first, for at most 30 seconds.
 */
refresh?: ("true" | "false")
}
response: {
data: FoundMachine[]
}
}
/**
 * Back up a machine of Hyper-V now
 */
"POST /backup/hyperv/backup": {
body: {
deviceId: string
/**
 * As it was last listed. Names of several machines are refused.
 */
vmName?: (string | null)
vmId?: (string | null)
consistencyType?: (("application" | "crash") | null)
/**
 * A folder of the device into which the machine is exported, and where it stays. Without it, a snapshot is made.
 */
exportPath?: (string | null)
/**
 * Whose repository takes the snapshot: a configuration for machines. Default: the default one, else the only one.
 */
configId?: (string | null)
}
response: MachineWork
}
/**
 * Restore a machine of a snapshot into Hyper-V
 */
"POST /backup/hyperv/restore": {
body: {
snapshotId: string
/**
 * Default: the device that was backed up. Another one of its organization.
 */
deviceId?: (string | null)
/**
 * Its name or id in the snapshot. Default: the only one there.
 */
machine?: (string | null)
/**
 * Its new name. Default: as before.
 */
vmName?: (string | null)
/**
 * False fails if the machine is still there.
 */
generateNewId?: (boolean | null)
/**
 * A folder of the device. Default: where the hypervisor keeps new machines.
 */
targetPath?: (string | null)
}
response: BackupRestore
}
/**
 * Make, delete or apply a checkpoint of a machine of Hyper-V
 */
"POST /backup/hyperv/checkpoint": {
body: {
deviceId: string
/**
 * As it was last listed. Names of several machines are refused.
 */
vmName?: (string | null)
vmId?: (string | null)
action: ("create" | "delete" | "apply")
checkpointName?: (string | null)
checkpointId?: (string | null)
}
response: MachineWork
}
/**
 * Start, stop, pause, resume or save a machine of Hyper-V
 */
"POST /backup/hyperv/vm-state": {
body: {
deviceId: string
/**
 * As it was last listed. Names of several machines are refused.
 */
vmName?: (string | null)
vmId?: (string | null)
state: ("start" | "stop" | "force_stop" | "pause" | "resume" | "save")
}
response: MachineWork
}
/**
 * List the machines of KVM on all devices
 */
"GET /backup/kvm/vms": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
deviceId?: string
/**
 * True: connected devices are asked first, for at most 30 seconds: the named one, or the 20 that were asked longest ago. What a device does not answer stays as it was.
 */
refresh?: ("true" | "false")
}
response: {
data: FoundMachine[]
pagination: Pagination
}
}
/**
 * List the machines of KVM on a device
 */
"GET /backup/kvm/vms/{deviceId}": {
params: {
deviceId: string
}
query: {
/**
 * True: the device is asked first, for at most 30 seconds.
 */
refresh?: ("true" | "false")
}
response: {
data: FoundMachine[]
}
}
/**
 * Back up a machine of KVM now
 */
"POST /backup/kvm/backup": {
body: {
deviceId: string
/**
 * As it was last listed. Names of several machines are refused.
 */
vmName?: (string | null)
vmId?: (string | null)
consistencyType?: (("application" | "crash") | null)
/**
 * A folder of the device into which the machine is exported, and where it stays. Without it, a snapshot is made.
 */
exportPath?: (string | null)
/**
 * Whose repository takes the snapshot: a configuration for machines. Default: the default one, else the only one.
 */
configId?: (string | null)
}
response: MachineWork
}
/**
 * Restore a machine of a snapshot into KVM
 */
"POST /backup/kvm/restore": {
body: {
snapshotId: string
/**
 * Default: the device that was backed up. Another one of its organization.
 */
deviceId?: (string | null)
/**
 * Its name or id in the snapshot. Default: the only one there.
 */
machine?: (string | null)
/**
 * Its new name. Default: as before.
 */
vmName?: (string | null)
/**
 * False fails if the machine is still there.
 */
generateNewId?: (boolean | null)
/**
 * A folder of the device. Default: where the hypervisor keeps new machines.
 */
targetPath?: (string | null)
}
response: BackupRestore
}
/**
 * Make, delete or apply a checkpoint of a machine of KVM
 */
"POST /backup/kvm/checkpoint": {
body: {
deviceId: string
/**
 * As it was last listed. Names of several machines are refused.
 */
vmName?: (string | null)
vmId?: (string | null)
action: ("create" | "delete" | "apply")
checkpointName?: (string | null)
checkpointId?: (string | null)
}
response: MachineWork
}
/**
 * Start, stop, pause, resume or save a machine of KVM
 */
"POST /backup/kvm/vm-state": {
body: {
deviceId: string
/**
 * As it was last listed. Names of several machines are refused.
 */
vmName?: (string | null)
vmId?: (string | null)
state: ("start" | "stop" | "force_stop" | "pause" | "resume" | "save")
}
response: MachineWork
}
/**
 * List backup configurations by name
 */
"GET /backup/configs": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
provider?: ("server" | "s3" | "local")
}
response: {
data: BackupConfig[]
pagination: Pagination
}
}
/**
 * Create a backup configuration
 */
"POST /backup/configs": {
body: ({
orgId: string
name: string
/**
 * The key of the repositories. It cannot be changed, but it can be rotated.
 */
encryptionKeyId: string
/**
 * Default true. A configuration that is not enabled begins no backup.
 */
enabled?: (boolean | null)
/**
 * The configuration of the organization that counts if a request names none. At most one is.
 */
isDefault?: (boolean | null)
sources: BackupSources
/**
 * Without one, backups begin by hand only.
 */
schedule?: (BackupSchedule | null)
retention?: (BackupRetention | null)
/**
 * Devices that any of these fields names. Without any, backups of the configuration begin by hand only.
 */
targets?: ({
/**
 * Every device of the organization.
 */
all?: (boolean | null)
deviceIds?: (string[] | null)
groupIds?: (string[] | null)
/**
 * The devices that match a saved filter of the organization.
 */
filterId?: (string | null)
} | null)
limits?: ({
/**
 * KiB a second.
 */
uploadKiBps?: (number | null)
/**
 * The share of all processors together.
 */
cpuPercent?: (number | null)
} | null)
provider: "server"
/**
 * `server`: Muster keeps the data itself.
 */
details?: ({

} | null)
} | {
orgId: string
name: string
/**
 * The key of the repositories. It cannot be changed, but it can be rotated.
 */
encryptionKeyId: string
/**
 * Default true. A configuration that is not enabled begins no backup.
 */
enabled?: (boolean | null)
/**
 * The configuration of the organization that counts if a request names none. At most one is.
 */
isDefault?: (boolean | null)
sources: BackupSources
/**
 * Without one, backups begin by hand only.
 */
schedule?: (BackupSchedule | null)
retention?: (BackupRetention | null)
/**
 * Devices that any of these fields names. Without any, backups of the configuration begin by hand only.
 */
targets?: ({
/**
 * Every device of the organization.
 */
all?: (boolean | null)
deviceIds?: (string[] | null)
groupIds?: (string[] | null)
/**
 * The devices that match a saved filter of the organization.
 */
filterId?: (string | null)
} | null)
limits?: ({
/**
 * KiB a second.
 */
uploadKiBps?: (number | null)
/**
 * The share of all processors together.
 */
cpuPercent?: (number | null)
} | null)
provider: "s3"
/**
 * `s3`: a bucket of the customer.
 */
details: {
bucket: string
region?: (string | null)
/**
 * For an S3 service other than Amazon’s.
 */
endpoint?: (string | null)
prefix?: (string | null)
accessKey: string
/**
 * Stored sealed, and never returned.
 */
secretKey: string
}
} | {
orgId: string
name: string
/**
 * The key of the repositories. It cannot be changed, but it can be rotated.
 */
encryptionKeyId: string
/**
 * Default true. A configuration that is not enabled begins no backup.
 */
enabled?: (boolean | null)
/**
 * The configuration of the organization that counts if a request names none. At most one is.
 */
isDefault?: (boolean | null)
sources: BackupSources
/**
 * Without one, backups begin by hand only.
 */
schedule?: (BackupSchedule | null)
retention?: (BackupRetention | null)
/**
 * Devices that any of these fields names. Without any, backups of the configuration begin by hand only.
 */
targets?: ({
/**
 * Every device of the organization.
 */
all?: (boolean | null)
deviceIds?: (string[] | null)
groupIds?: (string[] | null)
/**
 * The devices that match a saved filter of the organization.
 */
filterId?: (string | null)
} | null)
limits?: ({
/**
 * KiB a second.
 */
uploadKiBps?: (number | null)
/**
 * The share of all processors together.
 */
cpuPercent?: (number | null)
} | null)
provider: "local"
/**
 * `local`: a path on the device.
 */
details: {
/**
 * A folder as the device sees it: a disk or a share. Each device has a folder of its own in it.
 */
path: string
}
})
response: BackupConfig
}
/**
 * Read a backup configuration
 */
"GET /backup/configs/{id}": {
params: {
id: string
}
response: BackupConfig
}
/**
 * Change a backup configuration
 */
"PATCH /backup/configs/{id}": {
params: {
id: string
}
body: {
name?: (string | null)
/**
 * Default true. A configuration that is not enabled begins no backup.
 */
enabled?: (boolean | null)
/**
 * The configuration of the organization that counts if a request names none. At most one is.
 */
isDefault?: (boolean | null)
sources?: (BackupSources | null)
/**
 * Without one, backups begin by hand only.
 */
schedule?: (BackupSchedule | null)
retention?: (BackupRetention | null)
/**
 * Devices that any of these fields names. Without any, backups of the configuration begin by hand only.
 */
targets?: ({
/**
 * Every device of the organization.
 */
all?: (boolean | null)
deviceIds?: (string[] | null)
groupIds?: (string[] | null)
/**
 * The devices that match a saved filter of the organization.
 */
filterId?: (string | null)
} | null)
limits?: ({
/**
 * KiB a second.
 */
uploadKiBps?: (number | null)
/**
 * The share of all processors together.
 */
cpuPercent?: (number | null)
} | null)
details?: (({
bucket: string
region?: (string | null)
/**
 * For an S3 service other than Amazon’s.
 */
endpoint?: (string | null)
prefix?: (string | null)
accessKey: string
/**
 * The stored one stays if it is left out.
 */
secretKey?: (string | null)
} | {
/**
 * A folder as the device sees it: a disk or a share. Each device has a folder of its own in it.
 */
path: string
} | {

}) | null)
}
response: BackupConfig
}
/**
 * Delete a backup configuration
 */
"DELETE /backup/configs/{id}": {
params: {
id: string
}
query: {
/**
 * Keeps the snapshots. Nothing removes them any more; those in a bucket or on a device are no longer reached through Muster.
 */
keepSnapshots?: string
}
response: {
success: true
keptSnapshots: number
}
}
/**
 * Test a backup configuration
 */
"POST /backup/configs/{id}/test": {
params: {
id: string
}
body: {
/**
 * The device that tests the destination. Required with the providers `s3` and `local`, whose destination only devices reach.
 */
deviceId?: (string | null)
}
response: BackupConfigTest
}
/**
 * Back up a device now
 */
"POST /backup/jobs/run/{deviceId}": {
params: {
deviceId: string
}
body: {
/**
 * Default: the default configuration of the organization, else its only one.
 */
configId?: (string | null)
/**
 * For a database. Default: what its chain needs next, by the configuration.
 */
backupType?: (("full" | "differential" | "log") | null)
}
response: BackupJob
}
/**
 * Back up many devices now
 */
"POST /backup/jobs/bulk": {
body: {
deviceIds: string[]
}
response: {
jobs: {
id: string
orgId: string
deviceId: string
configId: (string | null)
}[]
/**
 * Devices whose backup was not started, and why.
 */
refused: {
deviceId: string
code: string
message: string
}[]
}
}
/**
 * List backup jobs, newest first
 */
"GET /backup/jobs": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
deviceId?: string
configId?: string
status?: ("pending" | "running" | "completed" | "partial" | "failed" | "cancelled")
/**
 * Jobs that were created on this day, in UTC; of a time, on the day of it.
 */
date?: string
/**
 * Jobs that were created at this time or later.
 */
from?: string
/**
 * Jobs that were created before or at this time. A day counts as a whole.
 */
to?: string
}
response: {
data: BackupJob[]
pagination: Pagination
}
}
/**
 * Read a backup job
 */
"GET /backup/jobs/{id}": {
params: {
id: string
}
response: BackupJob
}
/**
 * Cancel a backup job
 */
"POST /backup/jobs/{id}/cancel": {
params: {
id: string
}
response: BackupJob
}
/**
 * List encryption keys by name
 */
"GET /backup/encryption/keys": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
}
response: {
data: BackupEncryptionKey[]
pagination: Pagination
}
}
/**
 * Create an encryption key
 */
"POST /backup/encryption/keys": {
body: {
orgId: string
name: string
/**
 * 32 bytes in base64. If it is left out, the server makes the key. It is never returned.
 */
material?: (string | null)
}
response: BackupEncryptionKey
}
/**
 * Read an encryption key
 */
"GET /backup/encryption/keys/{id}": {
params: {
id: string
}
response: BackupEncryptionKey
}
/**
 * Rotate an encryption key
 */
"POST /backup/encryption/keys/{id}/rotate": {
params: {
id: string
}
response: BackupEncryptionKey
}
/**
 * Read what stock restic needs to restore without Muster
 */
"GET /backup/encryption/keys/{id}/recovery-kit": {
params: {
id: string
}
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * Only repositories of this device.
 */
deviceId?: string
}
response: BackupRecoveryKit
}
/**
 * List backup snapshots, the newest first
 */
"GET /backup/snapshots": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
deviceId?: string
configId?: string
backupType?: ("file" | "system_image" | "database" | "application")
/**
 * The copies in this vault. Without it, no copy of a vault is listed.
 */
vaultId?: string
/**
 * Received at this time or later.
 */
from?: string
/**
 * Received at this time or earlier.
 */
to?: string
/**
 * The state of the repository at this time, by what the store had received: the way back after a false index, a wrong removal or forged snapshots. A day means its end.
 */
asOf?: string
}
response: {
data: BackupSnapshot[]
pagination: Pagination
}
}
/**
 * Read a backup snapshot
 */
"GET /backup/snapshots/{id}": {
params: {
id: string
}
response: BackupSnapshot
}
/**
 * Set or release the legal hold of a backup snapshot
 */
"POST /backup/snapshots/{id}/legal-hold": {
params: {
id: string
}
body: {
/**
 * False releases it, which needs a second factor.
 */
enabled?: (boolean | null)
/**
 * Required to set it.
 */
reason?: (string | null)
}
response: BackupSnapshot
}
/**
 * Make a backup snapshot immutable until a time
 */
"POST /backup/snapshots/{id}/immutability": {
params: {
id: string
}
body: {
/**
 * From now on.
 */
immutableDays?: (number | null)
/**
 * The later of both times counts.
 */
extendUntil?: (string | null)
/**
 * For the audit trail.
 */
reason?: (string | null)
}
response: BackupSnapshot
}
/**
 * List a folder of a backup snapshot
 */
"GET /backup/snapshots/{id}/browse": {
params: {
id: string
}
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–1000.
 */
limit?: string
/**
 * A path from the root of the snapshot, with slashes, as the snapshot is browsed: C:\Users is /C/Users. A byte that is not UTF-8 is written as \x and two hexadecimal digits.
 */
path?: string
/**
 * The state of the repository at this time, by what the store had received: the way back after a false index, a wrong removal or forged snapshots. A day means its end.
 */
asOf?: string
/**
 * For a snapshot of several machines: the id or the name of the one to look into.
 */
machine?: string
/**
 * For an image: looks into this disk, and not at the file of the image. File systems of ext2, ext3 and ext4 are read.
 */
disk?: string
/**
 * The number of a partition of the disk. Left out for a disk without partitions.
 */
partition?: number
}
response: {
path: string
data: BackupSnapshotEntry[]
pagination: Pagination
/**
 * For a volume of an image. False: it was in use when it was saved, so the newest changes can be missing or damaged.
 */
isSettled?: boolean
}
}
/**
 * Search a backup snapshot by name
 */
"GET /backup/snapshots/{id}/search": {
params: {
id: string
}
query: {
/**
 * A part of the name, in any case. Without it everything matches.
 */
name?: string
/**
 * The folder to search, with all folders in it.
 */
path?: string
/**
 * The state of the repository at this time, by what the store had received: the way back after a false index, a wrong removal or forged snapshots. A day means its end.
 */
asOf?: string
}
response: {
data: BackupSnapshotEntry[]
/**
 * Entries that were compared.
 */
searched: number
/**
 * False: there were more matches or entries than one request looks at. Search in a folder.
 */
isComplete: boolean
}
}
/**
 * Compare a backup snapshot with an earlier one
 */
"GET /backup/snapshots/{id}/diff": {
params: {
id: string
}
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–1000.
 */
limit?: string
/**
 * The snapshot to compare with, of the same repository: the earlier state. Without it, the snapshot that the store received before this one.
 */
against?: string
/**
 * The folder to compare, with all folders in it.
 */
path?: string
/**
 * The state of the repository at this time, by what the store had received: the way back after a false index, a wrong removal or forged snapshots. A day means its end.
 */
asOf?: string
}
response: {
against: string
path: string
data: BackupSnapshotDifference[]
totals: {
added: {
entries: number
/**
 * The bytes of the files; of changed ones, as they are now.
 */
bytes: number
}
removed: {
entries: number
/**
 * The bytes of the files; of changed ones, as they are now.
 */
bytes: number
}
changed: {
entries: number
/**
 * The bytes of the files; of changed ones, as they are now.
 */
bytes: number
}
typeChanged: {
entries: number
/**
 * The bytes of the files; of changed ones, as they are now.
 */
bytes: number
}
}
/**
 * Entries of folders that differ. Folders that are the same are not read.
 */
compared: number
/**
 * False: there was more than one request looks at. The totals are of what was compared.
 */
isComplete: boolean
pagination: Pagination
}
}
/**
 * Read the description of the machine in an image
 */
"GET /backup/snapshots/{id}/machine": {
params: {
id: string
}
query: {
/**
 * The state of the repository at this time, by what the store had received: the way back after a false index, a wrong removal or forged snapshots. A day means its end.
 */
asOf?: string
/**
 * For a snapshot of several machines: the id or the name of the one to look into.
 */
machine?: string
}
response: SnapshotMachine
}
/**
 * Download a file or a folder of a backup snapshot
 */
"GET /backup/snapshots/{id}/download": {
params: {
id: string
}
query: {
/**
 * A path from the root of the snapshot, with slashes, as the snapshot is browsed: C:\Users is /C/Users. A byte that is not UTF-8 is written as \x and two hexadecimal digits.
 */
path?: string
/**
 * The state of the repository at this time, by what the store had received: the way back after a false index, a wrong removal or forged snapshots. A day means its end.
 */
asOf?: string
/**
 * For a snapshot of several machines: the id or the name of the one to look into.
 */
machine?: string
/**
 * For an image: looks into this disk, and not at the file of the image. File systems of ext2, ext3 and ext4 are read.
 */
disk?: string
/**
 * The number of a partition of the disk. Left out for a disk without partitions.
 */
partition?: number
}
response: null
}
/**
 * List restores, the newest first
 */
"GET /backup/restore": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
/**
 * The device that is restored to.
 */
deviceId?: string
snapshotId?: string
status?: ("pending" | "running" | "completed" | "partial" | "failed" | "cancelled")
/**
 * Created at this time or later.
 */
from?: string
/**
 * Created at this time or earlier.
 */
to?: string
}
response: {
data: BackupRestore[]
pagination: Pagination
}
}
/**
 * Restore a backup snapshot to a device
 */
"POST /backup/restore": {
body: {
snapshotId: string
/**
 * Default: the device that was backed up. Another one of its organization.
 */
deviceId?: (string | null)
/**
 * An absolute path on the device, and not the root of a disk. The data comes there below its whole path. Default: a new folder of the agent, which the finished restore names.
 */
targetPath?: (string | null)
/**
 * Files and folders, by their paths as the browser of the snapshot, or of `volume`, shows them. Default: everything in it.
 */
selectedPaths?: (string[] | null)
/**
 * For an image: files come out of this volume, with a file system of ext2, ext3 or ext4, and not the image itself.
 */
volume?: (BackupRestoredVolume | null)
/**
 * `selective` needs paths, and `full` takes none. `image`: one disk of an image comes to the file `targetPath`, which is made sparse, or onto the whole disk `targetPath` such as /dev/sdb, which needs `overwrite: always` and must not be mounted.
 */
restoreType?: (("full" | "selective" | "image") | null)
/**
 * For an image: the disk to restore. Default: the only one.
 */
disk?: (string | null)
/**
 * For an image: the last partition reaches the end of a larger disk. Default: no.
 */
grow?: (boolean | null)
/**
 * What happens to files that are there already.
 */
overwrite?: (("never" | "ifNewer" | "always") | null)
/**
 * Nothing is written. The result counts what would be.
 */
dryRun?: (boolean | null)
/**
 * The state of the repository at this time, by what the store had received: the way back after a false index, a wrong removal or forged snapshots. A day means its end.
 */
asOf?: (string | null)
}
response: BackupRestore
}
/**
 * Read a restore
 */
"GET /backup/restore/{id}": {
params: {
id: string
}
response: BackupRestore
}
/**
 * Cancel a restore
 */
"POST /backup/restore/{id}/cancel": {
params: {
id: string
}
response: BackupRestore
}
/**
 * Run a restore again that did not succeed
 */
"POST /backup/restore/{id}/rerun": {
params: {
id: string
}
response: BackupRestore
}
/**
 * Verify the backups of a device
 */
"POST /backup/verify": {
body: {
deviceId: string
verificationType: ("integrity" | "test_restore")
/**
 * Needed if the device has repositories of several configurations.
 */
configId?: (string | null)
/**
 * For a test restore: the snapshot; by default the newest one.
 */
snapshotId?: (string | null)
}
response: BackupVerification
}
/**
 * List verifications, newest first
 */
"GET /backup/verifications": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
deviceId?: string
verificationType?: ("integrity" | "test_restore")
/**
 * Any of pending, running, passed, failed, partial, separated by commas.
 */
status?: string
/**
 * Begun at or after: an instant, or a day (UTC).
 */
from?: string
/**
 * Begun at or before: an instant, or a day (UTC).
 */
to?: string
}
response: {
data: BackupVerification[]
pagination: Pagination
}
}
/**
 * List vaults by name
 */
"GET /backup/vault": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
deviceId?: string
isActive?: string
}
response: {
data: BackupVault[]
pagination: Pagination
}
}
/**
 * Create a vault
 */
"POST /backup/vault": {
body: ({
deviceId: string
/**
 * The configuration whose backups of the device are copied. It may be left out if there is one only.
 */
configId?: (string | null)
/**
 * The key of the copy, of the same organization. Default: that of the configuration. It cannot be changed.
 */
encryptionKeyId?: (string | null)
/**
 * Default: Vault.
 */
name?: (string | null)
/**
 * Default true. A vault that is not active is not synced.
 */
isActive?: (boolean | null)
/**
 * A sync begins after each backup that has succeeded. Default: true without a schedule.
 */
syncAfterBackup?: (boolean | null)
/**
 * Syncs by the clock, with or without those after backups.
 */
schedule?: (BackupSchedule | null)
/**
 * So many of the newest snapshots are copied, and with those of databases everything that they need. Default 3.
 */
retentionCount?: (number | null)
/**
 * An alert is raised if the vault lacks a snapshot for longer. Default 48.
 */
maxLagHours?: (number | null)
provider: "server"
/**
 * `server`: Muster keeps the data itself.
 */
details?: ({

} | null)
} | {
deviceId: string
/**
 * The configuration whose backups of the device are copied. It may be left out if there is one only.
 */
configId?: (string | null)
/**
 * The key of the copy, of the same organization. Default: that of the configuration. It cannot be changed.
 */
encryptionKeyId?: (string | null)
/**
 * Default: Vault.
 */
name?: (string | null)
/**
 * Default true. A vault that is not active is not synced.
 */
isActive?: (boolean | null)
/**
 * A sync begins after each backup that has succeeded. Default: true without a schedule.
 */
syncAfterBackup?: (boolean | null)
/**
 * Syncs by the clock, with or without those after backups.
 */
schedule?: (BackupSchedule | null)
/**
 * So many of the newest snapshots are copied, and with those of databases everything that they need. Default 3.
 */
retentionCount?: (number | null)
/**
 * An alert is raised if the vault lacks a snapshot for longer. Default 48.
 */
maxLagHours?: (number | null)
provider: "s3"
/**
 * `s3`: a bucket of the customer.
 */
details: {
bucket: string
region?: (string | null)
/**
 * For an S3 service other than Amazon’s.
 */
endpoint?: (string | null)
prefix?: (string | null)
accessKey: string
/**
 * Stored sealed, and never returned.
 */
secretKey: string
}
} | {
deviceId: string
/**
 * The configuration whose backups of the device are copied. It may be left out if there is one only.
 */
configId?: (string | null)
/**
 * The key of the copy, of the same organization. Default: that of the configuration. It cannot be changed.
 */
encryptionKeyId?: (string | null)
/**
 * Default: Vault.
 */
name?: (string | null)
/**
 * Default true. A vault that is not active is not synced.
 */
isActive?: (boolean | null)
/**
 * A sync begins after each backup that has succeeded. Default: true without a schedule.
 */
syncAfterBackup?: (boolean | null)
/**
 * Syncs by the clock, with or without those after backups.
 */
schedule?: (BackupSchedule | null)
/**
 * So many of the newest snapshots are copied, and with those of databases everything that they need. Default 3.
 */
retentionCount?: (number | null)
/**
 * An alert is raised if the vault lacks a snapshot for longer. Default 48.
 */
maxLagHours?: (number | null)
provider: "local"
/**
 * `local`: a path on the device.
 */
details: {
/**
 * A folder as the device sees it: a disk or a share. Each device has a folder of its own in it.
 */
path: string
}
})
response: BackupVault
}
/**
 * Read a vault
 */
"GET /backup/vault/{id}": {
params: {
id: string
}
response: BackupVault
}
/**
 * Change a vault
 */
"PATCH /backup/vault/{id}": {
params: {
id: string
}
body: {
/**
 * Default: Vault.
 */
name?: (string | null)
/**
 * Default true. A vault that is not active is not synced.
 */
isActive?: (boolean | null)
/**
 * A sync begins after each backup that has succeeded. Default: true without a schedule.
 */
syncAfterBackup?: (boolean | null)
/**
 * Syncs by the clock, with or without those after backups.
 */
schedule?: (BackupSchedule | null)
/**
 * So many of the newest snapshots are copied, and with those of databases everything that they need. Default 3.
 */
retentionCount?: (number | null)
/**
 * An alert is raised if the vault lacks a snapshot for longer. Default 48.
 */
maxLagHours?: (number | null)
details?: (({
bucket: string
region?: (string | null)
/**
 * For an S3 service other than Amazon’s.
 */
endpoint?: (string | null)
prefix?: (string | null)
accessKey: string
/**
 * The stored one stays if it is left out.
 */
secretKey?: (string | null)
} | {
/**
 * A folder as the device sees it: a disk or a share. Each device has a folder of its own in it.
 */
path: string
} | {

}) | null)
}
response: BackupVault
}
/**
 * Delete a vault
 */
"DELETE /backup/vault/{id}": {
params: {
id: string
}
query: {
/**
 * Keeps the copies. Otherwise the server removes those in its own store, and what is in a bucket or on the device stays there unnoticed.
 */
keepSnapshots?: string
}
response: {
success: true
keptSnapshots: number
}
}
/**
 * Read how far a vault is behind
 */
"GET /backup/vault/{id}/status": {
params: {
id: string
}
response: BackupVaultStatus
}
/**
 * Sync a vault now
 */
"POST /backup/vault/{id}/sync": {
params: {
id: string
}
body: {
/**
 * Copies only this snapshot of the device. Default: the newest ones.
 */
snapshotId?: (string | null)
}
response: BackupVaultSync
}
/**
 * Cancel the sync of a vault
 */
"POST /backup/vault/{id}/cancel": {
params: {
id: string
}
response: BackupVaultSync
}
/**
 * Read the sums of backups
 */
"GET /backup/dashboard": {
query: {
orgId?: string
}
response: BackupDashboard
}
/**
 * Read how a device is backed up
 */
"GET /backup/status/{deviceId}": {
params: {
deviceId: string
}
response: DeviceBackupStatus
}
/**
 * Read what backups took in the last days
 */
"GET /backup/usage-history": {
query: {
orgId?: string
days?: string
}
response: BackupUsageHistory
}
/**
 * Read the health of backups
 */
"GET /backup/health": {
query: {
orgId?: string
/**
 * Computes the figures of devices anew before it answers. Those of cloud backups follow each run and each change.
 */
refresh?: string
}
response: BackupHealth
}
/**
 * Read how surely devices and cloud services can be restored
 */
"GET /backup/recovery-readiness": {
query: {
orgId?: string
deviceId?: string
/**
 * Computes the figures of devices anew before it answers. Those of cloud backups follow each run and each change.
 */
refresh?: string
}
response: BackupRecoveryReadiness
}
/**
 * List SLAs by name
 */
"GET /backup/sla/configs": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
}
response: {
data: BackupSlaConfig[]
pagination: Pagination
}
}
/**
 * Create an SLA
 */
"POST /backup/sla/configs": {
body: {
orgId: string
name: string
/**
 * How old the newest snapshot may be.
 */
rpoTargetMinutes: number
/**
 * How long a restore may take, by the estimate.
 */
rtoTargetMinutes: number
targetDevices?: (string[] | null)
/**
 * Without devices and groups: all devices that are backed up.
 */
targetGroups?: (string[] | null)
/**
 * Default true.
 */
alertOnBreach?: (boolean | null)
/**
 * Default true. Without it, nothing is a breach.
 */
isActive?: (boolean | null)
}
response: BackupSlaConfig
}
/**
 * Change an SLA
 */
"PATCH /backup/sla/configs/{id}": {
params: {
id: string
}
body: {
name?: (string | null)
/**
 * How old the newest snapshot may be.
 */
rpoTargetMinutes?: (number | null)
/**
 * How long a restore may take, by the estimate.
 */
rtoTargetMinutes?: (number | null)
targetDevices?: (string[] | null)
/**
 * Without devices and groups: all devices that are backed up.
 */
targetGroups?: (string[] | null)
/**
 * Default true.
 */
alertOnBreach?: (boolean | null)
/**
 * Default true. Without it, nothing is a breach.
 */
isActive?: (boolean | null)
}
response: BackupSlaConfig
}
/**
 * Delete an SLA
 */
"DELETE /backup/sla/configs/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * List breaches of SLAs, newest first
 */
"GET /backup/sla/events": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
configId?: string
deviceId?: string
eventType?: ("rpo_breach" | "rto_breach" | "missed_backup")
/**
 * Detected at or after: an instant, or a day (UTC).
 */
from?: string
/**
 * Detected at or before: an instant, or a day (UTC).
 */
to?: string
}
response: {
data: BackupSlaEvent[]
pagination: Pagination
}
}
/**
 * List the database servers of devices
 */
"GET /backup/databases/instances": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
deviceId?: string
engine?: ("postgresql" | "mariadb" | "mssql")
/**
 * Asks the device first. It needs `deviceId`.
 */
refresh?: string
}
response: {
data: BackupDatabaseInstance[]
pagination: Pagination
/**
 * Present if the device was asked: the engines whose servers it could not look for.
 */
failed?: {
engine: string
message: string
}[]
}
}
/**
 * List the database servers of a device
 */
"GET /backup/databases/instances/{deviceId}": {
params: {
deviceId: string
}
query: {
engine?: ("postgresql" | "mariadb" | "mssql")
/**
 * Asks the device first. One that has never been asked is asked in any case.
 */
refresh?: string
}
response: {
data: BackupDatabaseInstance[]
/**
 * Present if the device was asked: the engines whose servers it could not look for.
 */
failed?: {
engine: string
message: string
}[]
}
}
/**
 * List what can be restored of databases
 */
"GET /backup/databases/chains": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
deviceId?: string
configId?: string
}
response: {
data: BackupDatabaseChains[]
pagination: Pagination
}
}
/**
 * Restore a database server into a folder of a device
 */
"POST /backup/databases/restore": {
body: {
/**
 * With it comes everything that it needs: the full backup, and the logs before it.
 */
snapshotId: string
/**
 * Default: the device that was backed up. Another one of its organization.
 */
deviceId?: (string | null)
/**
 * An absolute path: an empty folder on the device that belongs to the user of the database. Of SQL Server: a folder that its service reads, in which the backups lie while they are restored.
 */
targetPath: string
/**
 * For SQL Server, and needed there: the name of the new database. Nothing that is there is replaced.
 */
targetDatabase?: (string | null)
/**
 * With a time zone. Default: the end of the snapshot.
 */
pointInTime?: (string | null)
/**
 * The files are laid ready, and recovered when the server of the database starts with them.
 */
noRecovery?: (boolean | null)
/**
 * The state of the repository at this time, by what the store had received: the way back after a false index, a wrong removal or forged snapshots. A day means its end.
 */
asOf?: (string | null)
}
response: BackupRestore
}
/**
 * List the instances of SQL Server of all devices
 */
"GET /backup/mssql/instances": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
deviceId?: string
engine?: ("postgresql" | "mariadb" | "mssql")
/**
 * Asks the device first. It needs `deviceId`.
 */
refresh?: string
}
response: {
data: BackupDatabaseInstance[]
pagination: Pagination
}
}
/**
 * List the instances of SQL Server of a device
 */
"GET /backup/mssql/instances/{deviceId}": {
params: {
deviceId: string
}
query: {
engine?: ("postgresql" | "mariadb" | "mssql")
/**
 * Asks the device first. One that has never been asked is asked in any case.
 */
refresh?: string
}
response: {
data: BackupDatabaseInstance[]
/**
 * Present if the device was asked: the engines whose servers it could not look for.
 */
failed?: {
engine: string
message: string
}[]
}
}
/**
 * Read what can be restored of a database of SQL Server
 */
"GET /backup/mssql/chains": {
query: {
deviceId: string
instance: string
database: string
}
response: SqlChains
}
/**
 * Back up a database of SQL Server into a file
 */
"POST /backup/mssql/backup": {
body: {
deviceId: string
instance: string
database: string
backupType: ("full" | "differential" | "log")
/**
 * A full backup which the differential ones of others ignore.
 */
copyOnly?: (boolean | null)
/**
 * A folder as the service of SQL Server sees it, which writes there with its own account. The file gets a new name.
 */
outputPath: string
}
response: SqlWork
}
/**
 * Restore a database of SQL Server from a file
 */
"POST /backup/mssql/restore": {
body: {
deviceId: string
instance: string
/**
 * A file as the service of SQL Server sees it.
 */
backupFile: string
/**
 * For a full backup, a new name: no database is replaced.
 */
targetDatabase: string
/**
 * `differential` and `log` go on with a database that was restored with `noRecovery`.
 */
backupType?: (("full" | "differential" | "log") | null)
/**
 * True where more backups follow.
 */
noRecovery?: (boolean | null)
/**
 * For a log: the end, by the clock of the machine.
 */
stopAt?: (string | null)
}
response: SqlWork
}
/**
 * Read the state of the shadow copy writers of a device
 */
"GET /backup/vss/status/{deviceId}": {
params: {
deviceId: string
}
response: DeviceVss
}
/**
 * Check if this server has its own app at Microsoft
 */
"GET /c2c/m365/config": {
response: {
platformAppAvailable: boolean
}
}
/**
 * Begin to connect a directory with the app of this server
 */
"GET /c2c/m365/consent-url": {
query: {
orgId: string
displayName?: string
}
response: {
url: string
}
}
/**
 * Finish to connect a directory, when the browser returns from Microsoft
 */
"GET /c2c/m365/callback": {
response: null
}
/**
 * List cloud connections by name
 */
"GET /c2c/connections": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
}
response: {
data: CloudConnection[]
pagination: Pagination
}
}
/**
 * Create a cloud connection with an app of the organization
 */
"POST /c2c/connections": {
body: ({
orgId: string
provider: "microsoft_365"
/**
 * The app of this server is connected by GET /c2c/m365/consent-url only, which proves the directory.
 */
authMethod?: ("manual" | null)
displayName: string
tenantId: string
clientId: string
/**
 * It is stored sealed, and never returned.
 */
clientSecret: string
} | {
orgId: string
provider: "google_workspace"
})
response: CloudConnection
}
/**
 * Read a cloud connection
 */
"GET /c2c/connections/{id}": {
params: {
id: string
}
response: CloudConnection
}
/**
 * Rename a cloud connection, or give it a new secret
 */
"PATCH /c2c/connections/{id}": {
params: {
id: string
}
body: {
displayName?: (string | null)
/**
 * Only with a new secret, for an app of the same directory.
 */
clientId?: (string | null)
/**
 * Replaces an expired one. It is stored sealed, and never returned.
 */
clientSecret?: (string | null)
}
response: CloudConnection
}
/**
 * Delete a cloud connection that no configuration uses
 */
"DELETE /c2c/connections/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * Test a cloud connection
 */
"POST /c2c/connections/{id}/test": {
params: {
id: string
}
response: {
id: string
status: ("success" | "failed")
checks: {
name: string
ok: boolean
code?: string
message?: string
}[]
checkedAt: string
}
}
/**
 * List cloud backup configurations by name
 */
"GET /c2c/configs": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
connectionId?: string
}
response: {
data: CloudBackupConfig[]
pagination: Pagination
}
}
/**
 * Create a cloud backup configuration
 */
"POST /c2c/configs": {
body: {
connectionId: string
/**
 * A backup encryption key of the organization. It cannot be changed.
 */
encryptionKeyId: string
name: string
backupScope: ("mail" | "calendar" | "contacts" | "onedrive")[]
/**
 * Every user of the directory, including later ones.
 */
allUsers?: (boolean | null)
/**
 * Addresses of users.
 */
targetUsers?: (string[] | null)
/**
 * Without one, runs begin only manually. Default time zone: UTC.
 */
schedule?: (BackupSchedule | null)
/**
 * Without limits, everything is kept. The newest content of an existing item is always kept.
 */
retention?: ({
/**
 * Days after which items that were deleted, and contents that were replaced, are removed.
 */
keepDays?: (number | null)
/**
 * Newest contents of an item that are kept.
 */
keepVersions?: (number | null)
} | null)
/**
 * Default true.
 */
enabled?: (boolean | null)
}
response: CloudBackupConfig
}
/**
 * Read a cloud backup configuration
 */
"GET /c2c/configs/{id}": {
params: {
id: string
}
response: CloudBackupConfig
}
/**
 * Change a cloud backup configuration
 */
"PATCH /c2c/configs/{id}": {
params: {
id: string
}
body: {
name?: (string | null)
backupScope?: (("mail" | "calendar" | "contacts" | "onedrive")[] | null)
/**
 * Every user of the directory, including later ones.
 */
allUsers?: (boolean | null)
/**
 * Addresses of users.
 */
targetUsers?: (string[] | null)
/**
 * Without one, runs begin only manually. Default time zone: UTC.
 */
schedule?: (BackupSchedule | null)
/**
 * Without limits, everything is kept. The newest content of an existing item is always kept.
 */
retention?: ({
/**
 * Days after which items that were deleted, and contents that were replaced, are removed.
 */
keepDays?: (number | null)
/**
 * Newest contents of an item that are kept.
 */
keepVersions?: (number | null)
} | null)
/**
 * Default true.
 */
enabled?: (boolean | null)
}
response: CloudBackupConfig
}
/**
 * Delete a cloud backup configuration with all its items
 */
"DELETE /c2c/configs/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * List the users with items in a cloud backup configuration
 */
"GET /c2c/configs/{id}/users": {
params: {
id: string
}
query: {
/**
 * Part of the address, in any case.
 */
search?: string
}
response: {
/**
 * By address. At most 200: use `search` for the others.
 */
data: {
userEmail: string
}[]
}
}
/**
 * Begin a cloud backup
 */
"POST /c2c/configs/{id}/run": {
params: {
id: string
}
response: CloudBackupJob
}
/**
 * List cloud backup jobs, the newest first
 */
"GET /c2c/jobs": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
configId?: string
type?: ("backup" | "restore")
status?: ("pending" | "running" | "completed" | "partial" | "failed" | "cancelled")
}
response: {
data: CloudBackupJob[]
pagination: Pagination
}
}
/**
 * Read a cloud backup job with its outcomes
 */
"GET /c2c/jobs/{id}": {
params: {
id: string
}
response: CloudBackupJobDetails
}
/**
 * Cancel a cloud backup job
 */
"POST /c2c/jobs/{id}/cancel": {
params: {
id: string
}
response: CloudBackupJob
}
/**
 * List cloud backup items
 */
"GET /c2c/items": {
query: {
orgId?: string
configId?: string
userEmail?: string
itemType?: ("mail" | "calendar" | "contacts" | "onedrive")
/**
 * Words, in any case, each of which has to be a part of the subject or name, or of the name or address of the sender. At most 10. The first 240 characters of a subject or name are searched, and the first 90 of a sender.
 */
search?: string
isDeleted?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * `nextAfter` of the previous page.
 */
after?: string
}
response: {
data: CloudBackupItem[]
/**
 * For the next page; null: this is the last one.
 */
nextAfter: (string | null)
}
}
/**
 * Read a cloud backup item
 */
"GET /c2c/items/{id}": {
params: {
id: string
}
response: CloudBackupItem
}
/**
 * List the stored contents of a cloud backup item
 */
"GET /c2c/items/{id}/versions": {
params: {
id: string
}
response: {
/**
 * True if there are more, and only the newest are listed.
 */
isCut: boolean
/**
 * The newest first, at most 1000.
 */
data: {
id: string
sizeBytes: (number | null)
capturedAt: string
/**
 * When a newer content replaced it.
 */
supersededAt: (string | null)
isNewest: boolean
}[]
}
}
/**
 * Download a cloud backup item
 */
"GET /c2c/items/{id}/content": {
params: {
id: string
}
query: {
/**
 * An earlier content. Default: the newest one.
 */
versionId?: string
}
response: null
}
/**
 * Download cloud backup items as an archive
 */
"POST /c2c/items/export": {
body: {
itemIds: string[]
}
response: null
}
/**
 * Restore cloud backup items
 */
"POST /c2c/items/restore": {
body: {
/**
 * Items of one configuration.
 */
itemIds: string[]
/**
 * An earlier content of the one item. Default: the newest contents.
 */
versionId?: (string | null)
/**
 * Another connection of the organization. Default: that of the configuration.
 */
targetConnectionId?: (string | null)
/**
 * Default: the user of each item.
 */
targetUser?: (string | null)
/**
 * The folder, calendar or folder of contacts that takes the items; it is created if it is missing. Default: Restored by Muster. Nothing that exists is overwritten.
 */
targetFolder?: (string | null)
}
response: CloudBackupJob
}
/**
 * Read the space that cloud backups use in the backup store
 */
"GET /c2c/usage": {
query: {
orgId?: string
}
response: {
/**
 * Encrypted, with earlier contents. A content that several items share counts once.
 */
storedBytes: number
}
}
/**
 * List the types of events that can be sent
 */
"GET /webhooks/event-types": {
response: {
data: WebhookEventType[]
}
}
/**
 * List webhooks by name
 */
"GET /webhooks": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * Only webhooks of this organization.
 */
orgId?: string
}
response: {
data: Webhook[]
pagination: Pagination
}
}
/**
 * Create a webhook
 */
"POST /webhooks": {
body: {
name: string
/**
 * https only, with a public address.
 */
url: string
/**
 * Items: `alert.raised`: An alert was raised, or is active again. A device that is offline has the kind device_offline.
 * `alert.acknowledged`: A user acknowledged an alert.
 * `alert.resolved`: An alert was resolved, by a user or because its cause ended.
 * `device.created`: A device was enrolled.
 * `device.decommissioned`: A device was decommissioned.
 * `device.restored`: A decommissioned device was restored.
 * `command.ended`: A command for a device ended. Its payload and output are left out.
 * `backup.job_ended`: A backup of a device ended.
 * `backup.restore_ended`: A restore to a device ended.
 * `cloud_backup.job_ended`: A backup or restore of Microsoft 365 ended.
 * `rollout.halted`: The server halted the rollout of an agent version, because devices failed with it.
 * `audit.recorded`: An entry of the audit trail was sealed.
 */
eventTypes: ("alert.raised" | "alert.acknowledged" | "alert.resolved" | "device.created" | "device.decommissioned" | "device.restored" | "command.ended" | "backup.job_ended" | "backup.restore_ended" | "cloud_backup.job_ended" | "rollout.halted" | "audit.recorded")[]
/**
 * Default true.
 */
enabled?: (boolean | null)
/**
 * Leave it out in partner scope for the events of all organizations.
 */
orgId?: (string | null)
}
response: {
id: string
/**
 * Null: it receives the events of all organizations of the partner.
 */
orgId: (string | null)
partnerId: string
name: string
url: string
/**
 * Items: `alert.raised`: An alert was raised, or is active again. A device that is offline has the kind device_offline.
 * `alert.acknowledged`: A user acknowledged an alert.
 * `alert.resolved`: An alert was resolved, by a user or because its cause ended.
 * `device.created`: A device was enrolled.
 * `device.decommissioned`: A device was decommissioned.
 * `device.restored`: A decommissioned device was restored.
 * `command.ended`: A command for a device ended. Its payload and output are left out.
 * `backup.job_ended`: A backup of a device ended.
 * `backup.restore_ended`: A restore to a device ended.
 * `cloud_backup.job_ended`: A backup or restore of Microsoft 365 ended.
 * `rollout.halted`: The server halted the rollout of an agent version, because devices failed with it.
 * `audit.recorded`: An entry of the audit trail was sealed.
 */
eventTypes: ("alert.raised" | "alert.acknowledged" | "alert.resolved" | "device.created" | "device.decommissioned" | "device.restored" | "command.ended" | "backup.job_ended" | "backup.restore_ended" | "cloud_backup.job_ended" | "rollout.halted" | "audit.recorded")[]
enabled: boolean
/**
 * `failing`: the last attempt failed. `paused`: the server waits before it tries again. `disabled_by_server`: see disabledReason.
 */
status: ("active" | "failing" | "paused" | "disabled" | "disabled_by_server")
/**
 * Why the server disabled it. `gone`: the receiver answered 410. `failing`: no delivery succeeded for 3 days.
 */
disabledReason: (("gone" | "failing") | null)
/**
 * Attempts that failed since the last one that succeeded.
 */
failures: number
failingSince: (string | null)
lastSuccessAt: (string | null)
/**
 * Until then the previous secret signs as well.
 */
previousSecretUntil: (string | null)
createdBy: (string | null)
createdAt: string
updatedAt: string
/**
 * It begins with whsec_, and is returned only once.
 */
secret: string
}
}
/**
 * Read a webhook
 */
"GET /webhooks/{id}": {
params: {
id: string
}
response: Webhook
}
/**
 * Change, enable or disable a webhook
 */
"PATCH /webhooks/{id}": {
params: {
id: string
}
body: {
name?: (string | null)
/**
 * https only, with a public address.
 */
url?: (string | null)
eventTypes?: (("alert.raised" | "alert.acknowledged" | "alert.resolved" | "device.created" | "device.decommissioned" | "device.restored" | "command.ended" | "backup.job_ended" | "backup.restore_ended" | "cloud_backup.job_ended" | "rollout.halted" | "audit.recorded")[] | null)
enabled?: (boolean | null)
}
response: Webhook
}
/**
 * Delete a webhook with its log
 */
"DELETE /webhooks/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * Replace the secret of a webhook
 */
"POST /webhooks/{id}/rotate-secret": {
params: {
id: string
}
body: {
/**
 * How long the old secret signs as well; 24 when it is left out.
 */
overlapHours?: (number | null)
}
response: {
id: string
/**
 * Null: it receives the events of all organizations of the partner.
 */
orgId: (string | null)
partnerId: string
name: string
url: string
/**
 * Items: `alert.raised`: An alert was raised, or is active again. A device that is offline has the kind device_offline.
 * `alert.acknowledged`: A user acknowledged an alert.
 * `alert.resolved`: An alert was resolved, by a user or because its cause ended.
 * `device.created`: A device was enrolled.
 * `device.decommissioned`: A device was decommissioned.
 * `device.restored`: A decommissioned device was restored.
 * `command.ended`: A command for a device ended. Its payload and output are left out.
 * `backup.job_ended`: A backup of a device ended.
 * `backup.restore_ended`: A restore to a device ended.
 * `cloud_backup.job_ended`: A backup or restore of Microsoft 365 ended.
 * `rollout.halted`: The server halted the rollout of an agent version, because devices failed with it.
 * `audit.recorded`: An entry of the audit trail was sealed.
 */
eventTypes: ("alert.raised" | "alert.acknowledged" | "alert.resolved" | "device.created" | "device.decommissioned" | "device.restored" | "command.ended" | "backup.job_ended" | "backup.restore_ended" | "cloud_backup.job_ended" | "rollout.halted" | "audit.recorded")[]
enabled: boolean
/**
 * `failing`: the last attempt failed. `paused`: the server waits before it tries again. `disabled_by_server`: see disabledReason.
 */
status: ("active" | "failing" | "paused" | "disabled" | "disabled_by_server")
/**
 * Why the server disabled it. `gone`: the receiver answered 410. `failing`: no delivery succeeded for 3 days.
 */
disabledReason: (("gone" | "failing") | null)
/**
 * Attempts that failed since the last one that succeeded.
 */
failures: number
failingSince: (string | null)
lastSuccessAt: (string | null)
/**
 * Until then the previous secret signs as well.
 */
previousSecretUntil: (string | null)
createdBy: (string | null)
createdAt: string
updatedAt: string
/**
 * It begins with whsec_, and is returned only once.
 */
secret: string
}
}
/**
 * Send a ping to a webhook at once
 */
"POST /webhooks/{id}/test": {
params: {
id: string
}
response: WebhookTest
}
/**
 * List the deliveries of a webhook, newest first
 */
"GET /webhooks/{id}/deliveries": {
params: {
id: string
}
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * Any of pending, delivered, failed, separated by commas.
 */
status?: string
/**
 * `alert.raised`: An alert was raised, or is active again. A device that is offline has the kind device_offline.
 * `alert.acknowledged`: A user acknowledged an alert.
 * `alert.resolved`: An alert was resolved, by a user or because its cause ended.
 * `device.created`: A device was enrolled.
 * `device.decommissioned`: A device was decommissioned.
 * `device.restored`: A decommissioned device was restored.
 * `command.ended`: A command for a device ended. Its payload and output are left out.
 * `backup.job_ended`: A backup of a device ended.
 * `backup.restore_ended`: A restore to a device ended.
 * `cloud_backup.job_ended`: A backup or restore of Microsoft 365 ended.
 * `rollout.halted`: The server halted the rollout of an agent version, because devices failed with it.
 * `audit.recorded`: An entry of the audit trail was sealed.
 */
eventType?: ("alert.raised" | "alert.acknowledged" | "alert.resolved" | "device.created" | "device.decommissioned" | "device.restored" | "command.ended" | "backup.job_ended" | "backup.restore_ended" | "cloud_backup.job_ended" | "rollout.halted" | "audit.recorded")
/**
 * Added at or after: an instant, or a day (UTC).
 */
from?: string
/**
 * Added at or before: an instant, or a day (UTC).
 */
to?: string
}
response: {
data: WebhookDelivery[]
pagination: Pagination
}
}
/**
 * Read a delivery with its event and response
 */
"GET /webhooks/{id}/deliveries/{deliveryId}": {
params: {
id: string
deliveryId: string
}
response: WebhookDeliveryDetail
}
/**
 * Send the event of a delivery again
 */
"POST /webhooks/{id}/deliveries/{deliveryId}/replay": {
params: {
id: string
deliveryId: string
}
response: WebhookDelivery
}
/**
 * Send the events of a span of time again
 */
"POST /webhooks/{id}/replay": {
params: {
id: string
}
body: {
/**
 * Deliveries added at or after: an instant, or a day (UTC).
 */
from: string
/**
 * Deliveries added at or before: an instant, or a day (UTC).
 */
to: string
/**
 * Which are sent again; only failed ones when it is left out.
 */
statuses?: (("delivered" | "failed")[] | null)
eventTypes?: (("alert.raised" | "alert.acknowledged" | "alert.resolved" | "device.created" | "device.decommissioned" | "device.restored" | "command.ended" | "backup.job_ended" | "backup.restore_ended" | "cloud_backup.job_ended" | "rollout.halted" | "audit.recorded")[] | null)
}
response: {
/**
 * Events that are sent again, each once.
 */
replayed: number
}
}
/**
 * List notification channels by name
 */
"GET /notification-channels": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * Only channels of this organization.
 */
orgId?: string
/**
 * Only channels of the partner itself.
 */
ofPartner?: "true"
}
response: {
data: NotificationChannel[]
pagination: Pagination
}
}
/**
 * Create a notification channel
 */
"POST /notification-channels": {
body: {
/**
 * Leave it out in partner scope for a channel of the partner.
 */
orgId?: (string | null)
name: string
type: ("email" | "slack" | "teams" | "discord" | "pagerduty" | "ntfy" | "webhook")
/**
 * Which fields each type has is said at the fields.
 */
details: {
/**
 * `email`: the address.
 */
address?: (string | null)
/**
 * `webhook`: where events are sent. `pagerduty`: the Events API v2, such as https://events.eu.pagerduty.com/v2/enqueue; that of the United States when it is left out.
 */
url?: (string | null)
/**
 * `ntfy`: the server, such as https://ntfy.sh.
 */
server?: (string | null)
/**
 * `ntfy`: the topic.
 */
topic?: (string | null)
}
/**
 * Written, never returned. `slack`, `teams` and `discord`: the URL of the incoming webhook. `pagerduty`: the integration key. `ntfy`: an access token, if the server wants one. `webhook`: what signs, as `whsec_` and base64 of 24 to 64 bytes. `email` has none.
 */
secret?: (string | null)
}
response: NotificationChannel
}
/**
 * Read a notification channel
 */
"GET /notification-channels/{id}": {
params: {
id: string
}
response: NotificationChannel
}
/**
 * Change a notification channel
 */
"PATCH /notification-channels/{id}": {
params: {
id: string
}
body: {
name?: (string | null)
/**
 * Replaces all details. The type cannot be changed.
 */
details?: ({
/**
 * `email`: the address.
 */
address?: (string | null)
/**
 * `webhook`: where events are sent. `pagerduty`: the Events API v2, such as https://events.eu.pagerduty.com/v2/enqueue; that of the United States when it is left out.
 */
url?: (string | null)
/**
 * `ntfy`: the server, such as https://ntfy.sh.
 */
server?: (string | null)
/**
 * `ntfy`: the topic.
 */
topic?: (string | null)
} | null)
/**
 * Null removes it. It is needed again when the address that it is sent to changes.
 */
secret?: (string | null)
}
response: NotificationChannel
}
/**
 * Delete a notification channel
 */
"DELETE /notification-channels/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * Send a test message to a notification channel at once
 */
"POST /notification-channels/{id}/test": {
params: {
id: string
}
response: NotificationChannelTest
}
/**
 * List notification policies in their order
 */
"GET /notification-policies": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * Only policies of this organization.
 */
orgId?: string
/**
 * Only policies of the partner itself.
 */
ofPartner?: "true"
}
response: {
data: NotificationPolicy[]
pagination: Pagination
}
}
/**
 * Create a notification policy
 */
"POST /notification-policies": {
body: {
/**
 * Leave it out in partner scope for a policy of the partner.
 */
orgId?: (string | null)
name: string
/**
 * Default true.
 */
enabled?: (boolean | null)
match?: (NotificationPolicyMatch | null)
steps: NotificationPolicyStep[]
/**
 * After the last step everybody is told again this often, at most 200 times. Null: not again.
 */
repeatEveryMinutes?: (number | null)
/**
 * Default `none`.
 */
groupBy?: (("none" | "device" | "site" | "rule") | null)
/**
 * Default 0 with `none`, otherwise 30.
 */
groupSeconds?: (number | null)
/**
 * Default `acknowledged`.
 */
until?: (("acknowledged" | "resolved") | null)
}
response: NotificationPolicy
}
/**
 * Set the order of the notification policies of an owner
 */
"PUT /notification-policies/order": {
body: {
/**
 * Leave it out in partner scope for the policies of the partner.
 */
orgId?: (string | null)
/**
 * All policies of the owner, each once, the first first.
 */
policyIds: string[]
}
response: {
policyIds: string[]
}
}
/**
 * Show who would be told about an alert, and when
 */
"POST /notification-policies/simulate": {
body: {
orgId: string
severity: ("critical" | "high" | "medium" | "low" | "info")
kind: string
siteId?: (string | null)
/**
 * Its site is used when `siteId` is left out.
 */
deviceId?: (string | null)
/**
 * When it is raised; now when it is left out.
 */
at?: (string | null)
}
response: NotificationSimulation
}
/**
 * Read a notification policy
 */
"GET /notification-policies/{id}": {
params: {
id: string
}
response: NotificationPolicy
}
/**
 * Change, enable or disable a notification policy
 */
"PATCH /notification-policies/{id}": {
params: {
id: string
}
body: {
name?: (string | null)
enabled?: (boolean | null)
match?: (NotificationPolicyMatch | null)
steps?: (NotificationPolicyStep[] | null)
/**
 * After the last step everybody is told again this often, at most 200 times. Null: not again.
 */
repeatEveryMinutes?: (number | null)
/**
 * Alerts of the same device, site or kind are one conversation while it is open. `none`: each alert is its own.
 */
groupBy?: (("none" | "device" | "site" | "rule") | null)
/**
 * How long the first message waits for further alerts of its group. Those that come later are told together, at most once in this time, and never more often than once a minute.
 */
groupSeconds?: (number | null)
/**
 * What ends the escalation.
 */
until?: (("acknowledged" | "resolved") | null)
}
response: NotificationPolicy
}
/**
 * Delete a notification policy
 */
"DELETE /notification-policies/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * List notifications, newest first
 */
"GET /notifications": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * Messages about this alert.
 */
alertId?: string
channelId?: string
userId?: string
orgId?: string
/**
 * Any of pending, sent, failed, suppressed, separated by commas.
 */
status?: string
/**
 * Added at or after: an instant, or a day (UTC).
 */
from?: string
/**
 * Added at or before: an instant, or a day (UTC).
 */
to?: string
}
response: {
data: Notification[]
pagination: Pagination
}
}
/**
 * Read what you want to be told
 */
"GET /users/me/notification-settings": {
response: NotificationSettings
}
/**
 * Change what you want to be told
 */
"PATCH /users/me/notification-settings": {
body: {
/**
 * Where you are told; null: at the address of your account. A code is mailed to an address that is new.
 */
address?: (string | null)
/**
 * For those who look after the alerts; nothing is sent to it.
 */
phone?: (string | null)
/**
 * Nothing is sent then.
 */
quietHours?: (WeeklyHours | null)
/**
 * Critical alerts are sent in quiet hours as well.
 */
criticalBreaksQuietHours?: (boolean | null)
/**
 * Only alerts of these are sent; null: of all.
 */
severities?: (("critical" | "high" | "medium" | "low" | "info")[] | null)
}
response: NotificationSettings
}
/**
 * Have a further code mailed to your address for alerts
 */
"POST /users/me/notification-settings/address-code": {
response: NotificationSettings
}
/**
 * Verify your address for alerts with the code that was mailed to it
 */
"POST /users/me/notification-settings/verify-address": {
body: {
/**
 * The code of the mail, which counts for 24 hours.
 */
code: string
}
response: NotificationSettings
}
/**
 * List recovery plans by name
 */
"GET /dr/plans": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
status?: ("draft" | "active" | "archived")
}
response: {
data: RecoveryPlan[]
pagination: Pagination
}
}
/**
 * Create a recovery plan
 */
"POST /dr/plans": {
body: {
/**
 * Default: the organization of the caller.
 */
orgId?: (string | null)
name: string
description?: (string | null)
/**
 * How old the restored data may be.
 */
rpoTargetMinutes?: (number | null)
/**
 * How long it may take until everything works.
 */
rtoTargetMinutes?: (number | null)
/**
 * Default draft. An archived plan is not executed.
 */
status?: (("draft" | "active" | "archived") | null)
/**
 * When rehearsals begin automatically. Default time zone: UTC.
 */
rehearsalSchedule?: (BackupSchedule | null)
}
response: RecoveryPlanDetail
}
/**
 * Read a recovery plan with its groups
 */
"GET /dr/plans/{id}": {
params: {
id: string
}
response: RecoveryPlanDetail
}
/**
 * Change a recovery plan
 */
"PATCH /dr/plans/{id}": {
params: {
id: string
}
body: {
name?: (string | null)
description?: (string | null)
/**
 * How old the restored data may be.
 */
rpoTargetMinutes?: (number | null)
/**
 * How long it may take until everything works.
 */
rtoTargetMinutes?: (number | null)
/**
 * Default draft. An archived plan is not executed.
 */
status?: (("draft" | "active" | "archived") | null)
/**
 * When rehearsals begin automatically. Default time zone: UTC.
 */
rehearsalSchedule?: (BackupSchedule | null)
}
response: RecoveryPlanDetail
}
/**
 * Delete a recovery plan
 */
"DELETE /dr/plans/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * Add a group to a recovery plan
 */
"POST /dr/plans/{id}/groups": {
params: {
id: string
}
body: {
name: string
/**
 * A group begins when all groups of lower numbers are completed. Groups with equal numbers run together.
 */
sequence: number
/**
 * It also waits for this group of the plan, whose sequence must not be higher.
 */
dependsOnGroupId?: (string | null)
/**
 * They are restored at the same time.
 */
devices: RecoveryDevice[]
estimatedDurationMinutes?: (number | null)
}
response: RecoveryGroup
}
/**
 * Change a group of a recovery plan
 */
"PATCH /dr/plans/{id}/groups/{groupId}": {
params: {
id: string
groupId: string
}
body: {
name?: (string | null)
/**
 * A group begins when all groups of lower numbers are completed. Groups with equal numbers run together.
 */
sequence?: (number | null)
/**
 * It also waits for this group of the plan, whose sequence must not be higher.
 */
dependsOnGroupId?: (string | null)
/**
 * They are restored at the same time.
 */
devices?: (RecoveryDevice[] | null)
estimatedDurationMinutes?: (number | null)
/**
 * Scripts of checks of the group whose newest versions are taken. All other scripts that the group named before keep their versions, also when `devices` names them again. Needs scripts:execute.
 */
repinScripts?: (string[] | null)
}
response: RecoveryGroup
}
/**
 * Remove a group from a recovery plan
 */
"DELETE /dr/plans/{id}/groups/{groupId}": {
params: {
id: string
groupId: string
}
response: {
success: true
}
}
/**
 * Execute a recovery plan
 */
"POST /dr/plans/{id}/execute": {
params: {
id: string
}
body: {
executionType: ("rehearsal" | "failover" | "failback")
/**
 * The reason, for the audit log and the report.
 */
note?: (string | null)
/**
 * For a failback of machines: they were already restored manually, so their marks are cleared.
 */
machinesAreBack?: (boolean | null)
/**
 * For a failback of machines: they are shut down on their hosts and backed up as they are. Their marks stay until they are restored from these snapshots manually and a failback says `machinesAreBack`. Muster does not write to the disks of running systems.
 */
saveMachines?: (boolean | null)
}
response: RecoveryExecutionDetail
}
/**
 * List executions of recovery plans, the newest first
 */
"GET /dr/executions": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
orgId?: string
planId?: string
executionType?: ("rehearsal" | "failover" | "failback")
status?: ("pending" | "running" | "completed" | "failed" | "aborted")
}
response: {
data: RecoveryExecution[]
pagination: Pagination
}
}
/**
 * Read an execution of a recovery plan, step by step
 */
"GET /dr/executions/{id}": {
params: {
id: string
}
response: RecoveryExecutionDetail
}
/**
 * Abort an execution of a recovery plan
 */
"POST /dr/executions/{id}/abort": {
params: {
id: string
}
response: RecoveryExecutionDetail
}
/**
 * Read the retention of logs, commands and alerts
 */
"GET /orgs/organizations/{id}/log-retention": {
params: {
id: string
}
response: LogRetention
}
/**
 * Change the retention of logs, commands and alerts
 */
"PUT /orgs/organizations/{id}/log-retention": {
params: {
id: string
}
body: {
/**
 * For how many days lines of agents’ own logs are kept. 30 unless set otherwise.
 */
diagnosticDays: number
/**
 * For how many days stored events are kept. 90 unless set otherwise.
 */
eventDays: number
/**
 * For how many days ended commands, with their payload and output, are kept. 90 unless set otherwise.
 */
commandDays?: (number | null)
/**
 * For how many days resolved alerts are kept. 365 unless set otherwise.
 */
alertDays?: (number | null)
/**
 * What happens when the stored logs of the organization reach their budget in total: new logs are refused, or the oldest are removed by whole days of arrival. `refuse` unless set otherwise.
 */
whenFull?: (("refuse" | "remove_oldest") | null)
}
response: LogRetention
}
/**
 * Public keys of the audit trail
 */
"GET /audit-keys": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
}
response: {
data: {
keyId: string
algorithm: "Ed25519"
/**
 * PEM, as `openssl pkey -pubin` reads it.
 */
publicKey: string
createdAt: string
/**
 * When the key stopped signing; null while it is in use.
 */
retiredAt: (string | null)
}[]
pagination: Pagination
}
}
/**
 * List audit entries for people
 */
"GET /audit-logs": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * Part of the e-mail address or name of the user, case-insensitive.
 */
user?: string
/**
 * The exact action, such as `site.create`.
 */
action?: string
/**
 * The resource type, or part of the resource name, case-insensitive.
 */
resource?: string
category?: ("authentication" | "device" | "automation" | "policy" | "alert" | "compliance" | "organization" | "system")
/**
 * Only entries of this organization.
 */
orgId?: string
from?: string
to?: string
/**
 * With `true` the entries are not counted and the response has no total.
 */
skipCount?: ("true" | "false")
}
response: {
entries: AuditEntry[]
pagination: AuditPagination
}
}
/**
 * List audit entries for programs
 */
"GET /audit-logs/logs": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * Part of the e-mail address or name of the user, case-insensitive.
 */
user?: string
/**
 * The exact action, such as `site.create`.
 */
action?: string
/**
 * The resource type, or part of the resource name, case-insensitive.
 */
resource?: string
category?: ("authentication" | "device" | "automation" | "policy" | "alert" | "compliance" | "organization" | "system")
/**
 * Only entries of this organization.
 */
orgId?: string
from?: string
to?: string
/**
 * With `true` the entries are not counted and the response has no total.
 */
skipCount?: ("true" | "false")
}
response: {
data: AuditLog[]
pagination: AuditPagination
}
}
/**
 * Read an audit entry with all of its fields
 */
"GET /audit-logs/logs/{id}": {
params: {
id: string
}
response: FullAuditLog
}
/**
 * Search audit entries
 */
"GET /audit-logs/search": {
query: {
/**
 * Part of the action, e-mail address, resource (type, id or name) or details, case-insensitive.
 */
q: string
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * Part of the e-mail address or name of the user, case-insensitive.
 */
user?: string
/**
 * The exact action, such as `site.create`.
 */
action?: string
/**
 * The resource type, or part of the resource name, case-insensitive.
 */
resource?: string
category?: ("authentication" | "device" | "automation" | "policy" | "alert" | "compliance" | "organization" | "system")
/**
 * Only entries of this organization.
 */
orgId?: string
from?: string
to?: string
/**
 * With `true` the entries are not counted and the response has no total.
 */
skipCount?: ("true" | "false")
}
response: {
data: AuditLog[]
pagination: AuditPagination
}
}
/**
 * User activity report
 */
"GET /audit-logs/reports/user-activity": {
query: {
/**
 * Only entries of this organization.
 */
orgId?: string
from?: string
to?: string
}
response: {
totalUsers: number
totalEvents: number
actionsPerUser: {
userId: string
userName: (string | null)
userEmail: (string | null)
actionCount: number
lastActiveAt: string
}[]
topUsers: {
userId: string
userName: (string | null)
userEmail: (string | null)
actionCount: number
lastActiveAt: string
}[]
recentActivity: AuditLog[]
}
}
/**
 * Security events report
 */
"GET /audit-logs/reports/security-events": {
query: {
/**
 * Only entries of this organization.
 */
orgId?: string
from?: string
to?: string
}
response: {
totalEvents: number
loginAttempts: number
failedLogins: number
permissionChanges: number
byAction: {
action: string
count: number
}[]
recentEvents: AuditLog[]
}
}
/**
 * Compliance report
 */
"GET /audit-logs/reports/compliance": {
query: {
/**
 * Only entries of this organization.
 */
orgId?: string
from?: string
to?: string
}
response: {
totalEvents: number
dataAccess: number
dataChanges: number
exports: number
byAction: {
action: string
count: number
}[]
recentEvents: AuditLog[]
}
}
/**
 * Audit statistics by category and person
 */
"GET /audit-logs/stats": {
query: {
/**
 * Only entries of this organization.
 */
orgId?: string
from?: string
to?: string
}
response: {
totalEvents: number
byCategory: {
category: ("authentication" | "device" | "automation" | "policy" | "alert" | "compliance" | "organization" | "system")
count: number
}[]
byUser: {
userId: string
userName: (string | null)
actionCount: number
}[]
range: {
from: (string | null)
to: (string | null)
}
}
}
/**
 * Export audit entries as CSV
 */
"GET /audit-logs/export": {
query: {
userId?: string
/**
 * Part of the e-mail address or name of the user, case-insensitive.
 */
user?: string
/**
 * The exact action, such as `site.create`.
 */
action?: string
/**
 * The resource type, or part of the resource name, case-insensitive.
 */
resource?: string
category?: ("authentication" | "device" | "automation" | "policy" | "alert" | "compliance" | "organization" | "system")
/**
 * Only entries of this organization.
 */
orgId?: string
from?: string
to?: string
/**
 * A CSV file begins with a byte order mark, by which spreadsheets know UTF-8; false leaves it out.
 */
bom?: boolean
}
response: null
}
/**
 * Export audit entries
 */
"POST /audit-logs/export": {
body: {
format?: (("csv" | "json") | null)
/**
 * A CSV file begins with a byte order mark, by which spreadsheets know UTF-8; false leaves it out.
 */
bom?: (boolean | null)
filters?: ({
/**
 * Part of the e-mail address or name of the user, case-insensitive.
 */
user?: (string | null)
/**
 * The exact action, such as `site.create`.
 */
action?: (string | null)
/**
 * The resource type, or part of the resource name, case-insensitive.
 */
resource?: (string | null)
category?: (("authentication" | "device" | "automation" | "policy" | "alert" | "compliance" | "organization" | "system") | null)
/**
 * Only entries of this organization.
 */
orgId?: (string | null)
} | null)
dateRange?: ({
from?: (string | null)
to?: (string | null)
} | null)
}
response: {
data: FullAuditLog[]
}
}
/**
 * Verify an audit chain
 */
"POST /audit-logs/verify": {
body: {
/**
 * The organization whose chain is verified; null for that of the caller’s own organization or partner.
 */
orgId: (string | null)
}
response: AuditChainReport
}
/**
 * Read the audit retention policy
 */
"GET /orgs/organizations/{id}/audit-retention": {
params: {
id: string
}
response: AuditRetention
}
/**
 * Change the audit retention policy
 */
"PUT /orgs/organizations/{id}/audit-retention": {
params: {
id: string
}
body: {
/**
 * How many days entries are kept. Default: 365.
 */
retentionDays: number
/**
 * Copy entries to the archive of the server before they are removed; if that fails, they are kept.
 */
archiveToS3: boolean
}
response: AuditRetention
}
/**
 * Report on a month of an organization
 */
"GET /reports/month": {
query: {
orgId: string
/**
 * Such as 2026-10. It begins and ends on the clocks of the organization.
 */
month: string
}
response: MonthReport
}
/**
 * List schedules of reports by name
 */
"GET /reports/schedules": {
query: {
/**
 * Default 1; lower values count as 1.
 */
page?: string
/**
 * Default 50; clamped to 1–100.
 */
limit?: string
/**
 * Only those of this organization and of its partner.
 */
orgId?: string
}
response: {
data: ReportSchedule[]
pagination: Pagination
}
}
/**
 * Mail reports once a month
 */
"POST /reports/schedules": {
body: {
name: string
/**
 * 1 to 28, which every month has.
 */
dayOfMonth: number
time: string
timezone: string
/**
 * People, who are mailed at the address that they have then, while they are members.
 */
userIds: string[]
/**
 * Further addresses.
 */
addresses: string[]
/**
 * Leave it out in partner scope for all organizations.
 */
orgId?: (string | null)
}
response: ReportSchedule
}
/**
 * Change, pause or resume a schedule of reports
 */
"PATCH /reports/schedules/{id}": {
params: {
id: string
}
/**
 * From then on it is made by the rights of the caller.
 */
body: {
name?: (string | null)
/**
 * 1 to 28, which every month has.
 */
dayOfMonth?: (number | null)
time?: (string | null)
timezone?: (string | null)
/**
 * People, who are mailed at the address that they have then, while they are members.
 */
userIds?: (string[] | null)
/**
 * Further addresses.
 */
addresses?: (string[] | null)
isPaused?: (boolean | null)
}
response: ReportSchedule
}
/**
 * Delete a schedule of reports
 */
"DELETE /reports/schedules/{id}": {
params: {
id: string
}
response: {
success: true
}
}
/**
 * Read how the fleet has changed from day to day
 */
"GET /fleet/trends": {
query: {
orgId?: string
/**
 * How many days back, today included. Default 30, at most 400.
 */
days?: string
}
response: FleetTrends
}
/**
 * Read the release that runs, and for how long it has run
 */
"GET /health": {
response: {
status: "ok"
version: string
/**
 * Seconds.
 */
uptime: number
}
}
/**
 * See whether the process is alive
 */
"GET /health/live": {
response: {
status: "ok"
}
}
/**
 * See whether the server can take requests
 */
"GET /health/ready": {
response: {
status: ("ready" | "not_ready")
checks: {
[k: string]: "ok" | "failed" | "read_only" | "unavailable" | "not_configured"
}
}
}
/**
 * Read this document
 */
"GET /openapi.json": {
response: {
[k: string]: unknown
}
}
/**
 * Open the reference of the REST interface
 */
"GET /docs": {
response: null
}
/**
 * Open the reference of the socket messages
 */
"GET /docs/sockets": {
response: null
}
/**
 * Load the script that starts the reference
 */
"GET /docs/start.js": {
response: null
}
/**
 * Load the search of the reference of the socket messages
 */
"GET /docs/sockets.js": {
response: null
}
/**
 * Load a file of the reference
 */
"GET /docs/assets/{name}": {
params: {
name: ("swagger-ui.css" | "swagger-ui-bundle.js" | "favicon-32x32.png")
}
response: null
}
/**
 * Read the metrics of this server
 */
"GET /metrics": {
response: null
}
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "SignedIn".
 */
export interface SignedIn {
user: {
id: string
email: string
name: string
mfaEnabled: boolean
}
tokens: Tokens
mfaRequired: false
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "Tokens".
 */
export interface Tokens {
accessToken: string
expiresInSeconds: number
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "SecondFactorRequired".
 */
export interface SecondFactorRequired {
mfaRequired: true
/**
 * Valid for 5 minutes and 5 attempts.
 */
tempToken: string
/**
 * What the account can finish the sign-in with. `passkey`: POST /auth/mfa/passkey-options. The others: POST /auth/mfa/verify.
 */
methods: ("app" | "recovery_code" | "passkey")[]
user: null
tokens: null
}
/**
 * For `navigator.credentials.get` of a browser, as JSON of WebAuthn.
 * 
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "PasskeyRequestOptions".
 */
export interface PasskeyRequestOptions {
/**
 * Valid for 5 minutes and one answer.
 */
challenge: string
rpId: string
timeout: number
userVerification: ("required" | "preferred" | "discouraged")
/**
 * Empty: any passkey of this server.
 */
allowCredentials: {
id: string
type: "public-key"
transports?: string[]
}[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "Pagination".
 */
export interface Pagination {
page: number
limit: number
total: number
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "SecondFactors".
 */
export interface SecondFactors {
/**
 * Whether the account has any second factor, so that a password alone is not enough.
 */
mfaEnabled: boolean
/**
 * Whether an authenticator app is enabled.
 */
app: boolean
passkeys: number
/**
 * How many recovery codes are unused.
 */
recoveryCodes: number
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "Passkey".
 */
export interface Passkey {
id: string
name: string
/**
 * Whether the authenticator copies it to other devices of the person.
 */
synced: boolean
/**
 * Set if its count of signatures has gone back, as that of a copied authenticator does. It is refused from then on.
 */
suspectAt: (string | null)
lastUsedAt: (string | null)
createdAt: string
}
/**
 * For `navigator.credentials.create` of a browser, as JSON of WebAuthn.
 * 
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "PasskeyCreationOptions".
 */
export interface PasskeyCreationOptions {
/**
 * Valid for 5 minutes and one answer.
 */
challenge: string
rp: {
id: string
name: string
}
user: {
id: string
name: string
displayName: string
}
pubKeyCredParams: {
alg: number
type: "public-key"
}[]
timeout: number
attestation: "none"
excludeCredentials: {
id: string
type: "public-key"
transports?: string[]
}[]
authenticatorSelection: {
residentKey: "required"
requireResidentKey: true
userVerification: ("required" | "preferred" | "discouraged")
}
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "SsoPreset".
 */
export interface SsoPreset {
id: string
type: ("oidc" | "saml")
name: string
issuer?: string
scopes?: string
authorizationUrl?: string
tokenUrl?: string
userInfoUrl?: string
jwksUrl?: string
ssoUrl?: string
attributeMapping: SsoAttributeMapping
/**
 * The names in braces, such as tenant for {tenant}, that you have to replace.
 */
placeholders: string[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "SsoAttributeMapping".
 */
export interface SsoAttributeMapping {
email: string
name: string
firstName?: string
lastName?: string
groups?: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "SsoProvider".
 */
export interface SsoProvider {
id: string
ownerScope: ("organization" | "partner")
orgId: (string | null)
partnerId: (string | null)
name: string
type: ("oidc" | "saml")
status: ("inactive" | "testing" | "active")
preset: (string | null)
issuer: (string | null)
clientId: (string | null)
/**
 * The secret itself is never returned.
 */
hasClientSecret: boolean
tokenAuthMethod: ("client_secret_basic" | "client_secret_post")
scopes: string
authorizationUrl: (string | null)
tokenUrl: (string | null)
userInfoUrl: (string | null)
jwksUrl: (string | null)
entityId: (string | null)
ssoUrl: (string | null)
certificate: (string | null)
attributeMapping: SsoAttributeMapping
autoProvision: boolean
defaultRoleId: (string | null)
/**
 * Mail domains, separated by commas. Empty means all domains.
 */
allowedDomains: string
enforceSSO: boolean
trustsIdpMfa: boolean
breakGlassUserIds: string[]
/**
 * Increases with each change. A change ends the sign-ins in progress.
 */
configVersion: number
/**
 * Time of the last successful sign-in. Null again when a change selects another identity provider.
 */
lastSuccessAt: (string | null)
createdBy: (string | null)
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "SsoProviderTest".
 */
export interface SsoProviderTest {
success: boolean
/**
 * The checks in their order. If one fails, the checks that depend on it are left out.
 */
checks: {
name: ("configuration" | "discovery" | "issuer" | "endpoints" | "keys" | "certificate" | "ssoUrl")
ok: boolean
message?: string
}[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "SsoDomain".
 */
export interface SsoDomain {
id: string
orgId: string
domain: string
status: ("pending" | "verified")
/**
 * The DNS record that proves the domain. It has to remain in the DNS.
 */
record: {
type: "TXT"
name: string
value: string
}
verifiedAt: (string | null)
/**
 * The time since which the daily check has not found the record of a verified domain.
 */
failingSince: (string | null)
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "SsoIdentity".
 */
export interface SsoIdentity {
id: string
/**
 * Null for a provider of an organization or partner that you have left.
 */
provider: ({
id: string
name: string
type: ("oidc" | "saml")
} | null)
/**
 * The address that the provider sent at the last sign-in.
 */
email: (string | null)
lastLoginAt: (string | null)
createdAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "LoginContext".
 */
export interface LoginContext {
branding: ({
/**
 * An https:// URL, or a data: URI of a PNG, JPEG or WebP image.
 */
logoUrl: (string | null)
accentColor: (string | null)
headline: (string | null)
} | null)
partnerSso: ({
providerName: string
loginUrl: string
enforceSSO: boolean
} | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "LoginBranding".
 */
export interface LoginBranding {
/**
 * An https:// URL, or a data: URI of a PNG, JPEG or WebP image.
 */
logoUrl: (string | null)
accentColor: (string | null)
headline: (string | null)
updatedAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "ApiKey".
 */
export interface ApiKey {
id: string
/**
 * null: wherever its maker may go.
 */
orgId: (string | null)
createdBy: string
name: string
/**
 * The first characters, to tell keys apart.
 */
keyPrefix: string
scopes: string[]
/**
 * Requests an hour.
 */
rateLimit: number
expiresAt: (string | null)
revokedAt: (string | null)
/**
 * Up to a minute late.
 */
lastUsedAt: (string | null)
/**
 * Requests so far; up to a minute late.
 */
usageCount: number
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "User".
 */
export interface User {
id: string
email: string
name: string
status: ("active" | "invited" | "disabled")
/**
 * Whether a user has proved that they read the mail of this address.
 */
emailVerified: boolean
mfaEnabled: boolean
scope: ("system" | "partner" | "organization")
partnerId: (string | null)
orgId: (string | null)
roleId: string
roleName: string
/**
 * For users of a partner; null for others.
 */
orgAccess: (("all" | "selected" | "none") | null)
/**
 * Used when orgAccess is selected.
 */
orgIds: string[]
lastLoginAt: (string | null)
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "Role".
 */
export interface Role {
id: string
scope: ("system" | "partner" | "organization")
partnerId: (string | null)
orgId: (string | null)
name: string
description: (string | null)
permissions: string[]
isSystem: boolean
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "Partner".
 */
export interface Partner {
id: string
name: string
slug: string
type: ("msp" | "enterprise" | "internal")
plan: ("free" | "starter" | "community" | "pro" | "enterprise" | "unlimited")
status: ("pending" | "active" | "suspended" | "churned")
maxOrganizations: (number | null)
maxDevices: (number | null)
settings: {
[k: string]: unknown
}
ssoConfig: {
[k: string]: unknown
}
billingEmail: (string | null)
createdAt: string
updatedAt: string
deletedAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "Organization".
 */
export interface Organization {
id: string
partnerId: string
name: string
slug: string
type: ("customer" | "internal")
status: ("active" | "suspended" | "trial" | "churned")
maxDevices: (number | null)
settings: {
[k: string]: unknown
}
ssoConfig: {
[k: string]: unknown
}
contractStart: (string | null)
contractEnd: (string | null)
/**
 * Any JSON.
 */
billingContact: {
[k: string]: unknown
}
createdAt: string
updatedAt: string
deletedAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "Site".
 */
export interface Site {
id: string
orgId: string
name: string
/**
 * Any JSON.
 */
address: {
[k: string]: unknown
}
timezone: string
/**
 * Any JSON.
 */
contact: {
[k: string]: unknown
}
settings: {
[k: string]: unknown
}
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "EnrollmentKey".
 */
export interface EnrollmentKey {
id: string
orgId: string
siteId: (string | null)
name: string
/**
 * The first characters, to tell keys apart.
 */
keyPrefix: string
usageCount: number
maxUsage: (number | null)
expiresAt: (string | null)
revokedAt: (string | null)
createdBy: (string | null)
createdAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "AgentRelease".
 */
export interface AgentRelease {
id: string
component: ("agent" | "watchdog" | "helper" | "backup")
os: ("linux" | "windows" | "macos")
architecture: ("x64" | "arm64")
version: string
/**
 * Where a download comes from: GitHub, or this server.
 */
source: ("github" | "local")
/**
 * Bytes.
 */
size: number
sha256: string
/**
 * Id of the key of the signature.
 */
signedBy: string
/**
 * Ed25519 over the canonical JSON (RFC 8785) of version, component, os, architecture, sha256 and size; base64url.
 */
signature: string
notes: (string | null)
isPrerelease: boolean
/**
 * Whether this is what devices of its platform upgrade to.
 */
promoted: boolean
createdAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "EffectiveAgentUpdates".
 */
export interface EffectiveAgentUpdates {
pins: {
agent: {
value: string
/**
 * Where the value was set.
 */
level: ("organization" | "partner" | "default")
}
watchdog: {
value: string
/**
 * Where the value was set.
 */
level: ("organization" | "partner" | "default")
}
}
policy: {
/**
 * `auto`: what is promoted, at once. `staged`: when the wave of a rollout arrives. `manual`: only on request.
 */
value: ("auto" | "staged" | "manual")
/**
 * Where the value was set.
 */
level: ("organization" | "partner" | "default")
}
maintenanceWindow: {
/**
 * Null: upgrades may be installed at any time.
 */
value: ({
/**
 * The days of UTC on which the window opens.
 */
days: ("mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun")[]
start: string
/**
 * In UTC; a window whose end lies before its start closes on the next day.
 */
end: string
} | null)
/**
 * Where the value was set.
 */
level: ("organization" | "partner" | "default")
}
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "DeviceUpgrade".
 */
export interface DeviceUpgrade {
component: ("agent" | "watchdog")
/**
 * The version that the device reports.
 */
current: string
/**
 * The version that it should run, or is being upgraded to.
 */
target: (string | null)
/**
 * `deferred` ends by itself, `blocked` when a setting is changed. `trial`: the device runs the release, which still has to prove itself. `failed` and `rolled_back`: the version has failed and is tried again later.
 */
state: ("up_to_date" | "offered" | "deferred" | "blocked" | "downloading" | "verifying" | "installing" | "restarting" | "trial" | "failed" | "rolled_back")
reason: (("no_release" | "pinned" | "no_build_for_platform" | "newer_than_target" | "signature_untrusted" | "capability_missing" | "auto_update_off" | "policy_manual" | "rollout_halted" | "wave_not_reached" | "outside_window" | "in_maintenance" | "agent_offline" | "retry_later" | "one_at_a_time") | null)
message: string
/**
 * When the maintenance window opens, or when the version is tried again; with `outside_window`, `in_maintenance` and `retry_later` only.
 */
nextAt?: string
levels: {
/**
 * Where the value was set.
 */
pin: ("organization" | "partner" | "default")
/**
 * Where the value was set.
 */
policy: ("organization" | "partner" | "default")
/**
 * Where the value was set.
 */
window: ("organization" | "partner" | "default")
}
/**
 * The newest attempts, at most 20, newest first.
 */
history: DeviceUpgradeAttempt[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "DeviceUpgradeAttempt".
 */
export interface DeviceUpgradeAttempt {
id: string
fromVersion: (string | null)
targetVersion: string
state: ("offered" | "downloading" | "verifying" | "installing" | "restarting" | "trial" | "completed" | "failed" | "rolled_back")
/**
 * Why it failed, for programs.
 */
code: (string | null)
/**
 * Why it failed, as the device reports it.
 */
error: (string | null)
rolloutId: (string | null)
/**
 * Whether a person has asked for it.
 */
byHand: boolean
startedAt: string
updatedAt: string
finishedAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "AgentRollout".
 */
export interface AgentRollout {
id: string
component: ("agent" | "watchdog")
version: string
/**
 * `paused` by a person, `halted` by failures; both can be resumed. `aborted` cannot.
 */
state: ("running" | "paused" | "halted" | "aborted" | "completed")
waves: {
/**
 * The share of the fleet that this wave adds to the waves before it.
 */
percent: number
/**
 * How long the wave is observed before the next one opens.
 */
soakMinutes: number
/**
 * The share of the fleet in this wave and those before it.
 */
reachedPercent: number
}[]
/**
 * The wave that is open, from 0.
 */
wave: number
waveOpenedAt: string
haltWhen: {
/**
 * Halt when so large a share of the devices that have finished failed, and at least two.
 */
failedPercent: number
/**
 * How long a device may be unheard of after its upgrade before it counts as silent.
 */
silentMinutes: number
/**
 * The share of failures counts when so many devices have finished, or all that have begun.
 */
minDevices: number
}
createdBy: (string | null)
createdAt: string
/**
 * When it was completed or aborted.
 */
endedAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "AgentRolloutDetails".
 */
export interface AgentRolloutDetails {
id: string
component: ("agent" | "watchdog")
version: string
/**
 * `paused` by a person, `halted` by failures; both can be resumed. `aborted` cannot.
 */
state: ("running" | "paused" | "halted" | "aborted" | "completed")
waves: {
/**
 * The share of the fleet that this wave adds to the waves before it.
 */
percent: number
/**
 * How long the wave is observed before the next one opens.
 */
soakMinutes: number
/**
 * The share of the fleet in this wave and those before it.
 */
reachedPercent: number
state: ("open" | "waiting")
/**
 * Devices of the wave for which the version is the target.
 */
devices: number
/**
 * Each device counts in one of these.
 */
counts: {
/**
 * They are offered the release with their next heartbeat.
 */
due: number
/**
 * The upgrade was requested and has not begun.
 */
offered: number
downloading: number
verifying: number
installing: number
restarting: number
/**
 * They run the new version, which still has to prove itself.
 */
trial: number
healthy: number
failed: number
rolledBack: number
/**
 * They run the new version, or should, and are not heard of.
 */
silent: number
/**
 * They have the version without the rollout.
 */
upToDate: number
/**
 * Devices whose upgrade has not begun, by the reason that `GET /devices/:id/upgrades` gives.
 */
waiting: {
[k: string]: number
}
}
}[]
/**
 * The wave that is open, from 0.
 */
wave: number
waveOpenedAt: string
haltWhen: {
/**
 * Halt when so large a share of the devices that have finished failed, and at least two.
 */
failedPercent: number
/**
 * How long a device may be unheard of after its upgrade before it counts as silent.
 */
silentMinutes: number
/**
 * The share of failures counts when so many devices have finished, or all that have begun.
 */
minDevices: number
}
createdBy: (string | null)
createdAt: string
/**
 * When it was completed or aborted.
 */
endedAt: (string | null)
/**
 * Devices for which the version is the target and that no wave reaches.
 */
outside: number
/**
 * What the server does in its next round, once a minute, and why.
 */
next: {
step: ("hold" | "halt" | "open_next_wave" | "complete")
message: string
/**
 * When the open wave has been observed for long enough.
 */
soakedAt: string
}
/**
 * Newest first, at most 20.
 */
halts: AgentRolloutHalt[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "AgentRolloutHalt".
 */
export interface AgentRolloutHalt {
reason: ("failed_share" | "failed_in_a_row" | "silent")
message: string
/**
 * The devices that caused it, at most 100 of them, as they were then.
 */
devices: {
deviceId: string
orgId: string
name: string
}[]
deviceCount: number
haltedAt: string
/**
 * When the rollout was resumed or aborted.
 */
endedAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "Device".
 */
export interface Device {
id: string
orgId: string
siteId: string
groupIds: string[]
hostname: string
displayName: (string | null)
status: ("online" | "offline" | "maintenance" | "updating" | "pending" | "quarantined" | "decommissioned")
/**
 * Of a device with the status `pending`: the device whose machine id it has.
 */
conflictsWith: (string | null)
/**
 * When maintenance ends automatically.
 */
maintenanceUntil: (string | null)
/**
 * The maintenance window that is in progress; of several, the one that ends last. The status `maintenance` and `maintenanceUntil` are about maintenance that a person has switched on for the device.
 */
maintenance: ({
windowId: string
name: string
until: string
} | null)
presence: Presence
osType: ("windows" | "macos" | "linux")
osVersion: string
osBuild: (string | null)
architecture: ("x64" | "x86" | "arm64")
agentVersion: string
watchdogVersion: (string | null)
/**
 * As the watchdog reports it; null without a watchdog.
 */
agentState: ({
/**
 * `silent`: its event loop does not answer. `crash_loop`: it exits again and again.
 */
state: ("running" | "restarting" | "silent" | "crash_loop" | "stopped")
message: (string | null)
since: string
} | null)
enrolledAt: string
lastSeenAt: (string | null)
lastIp: (string | null)
tags: string[]
customFields: {
[k: string]: unknown
}
hardware: {
manufacturer?: string
model?: string
serialNumber?: string
cpuModel?: string
cpuCores?: number
ramTotalMb?: number
diskTotalGb?: number
gpuModel?: string
}
network: {
ipAddress?: string
publicIp?: string
macAddress?: string
/**
 * The hardware addresses of its interfaces. The first 32 are kept.
 */
macAddresses?: string[]
}
metrics: ({
/**
 * The average since the heartbeat before.
 */
cpuPercent: number
ramPercent: number
/**
 * The part of the system disk that is in use.
 */
diskPercent: number
at: string
} | null)
autoUpdate: boolean
capabilities: string[]
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "Presence".
 */
export interface Presence {
state: ("connected" | "disconnected")
/**
 * When this state began.
 */
since: string
reason: ("connected" | "heartbeat_missed" | "socket_closed" | "node_lost" | "updating" | "never_seen")
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "DeviceColumns".
 */
export interface DeviceColumns {
data: {
deviceId: string
/**
 * By column; what a device does not have is left out. Lists are joined by commas. A text ends with … after 200 characters.
 */
values: {
[k: string]: string | number | boolean
}
/**
 * The same, by key.
 */
customFields: {
[k: string]: string | number | boolean
}
}[]
/**
 * Null for the last page.
 */
nextAfter: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "CustomField".
 */
export interface CustomField {
id: string
orgId: string
key: string
name: string
/**
 * `date` is a day or a time in ISO 8601; `list` is a list of texts.
 */
type: ("string" | "number" | "boolean" | "date" | "list")
description: (string | null)
createdBy: (string | null)
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "DeviceInventory".
 */
export interface DeviceInventory {
deviceId: string
orgId: string
hardware: {
manufacturer?: string
model?: string
serialNumber?: string
cpuModel?: string
cpuCores?: number
ramTotalMb?: number
diskTotalGb?: number
gpuModel?: string
}
network: {
ipAddress?: string
publicIp?: string
macAddress?: string
/**
 * The hardware addresses of its interfaces. The first 32 are kept.
 */
macAddresses?: string[]
}
interfaces: {
name: string
macAddress?: string
ipAddresses: string[]
/**
 * The total number, if more exist than are listed.
 */
addressCount?: number
/**
 * True for the interface of the default route: one at most.
 */
isPrimary: boolean
}[]
lastUser: (string | null)
/**
 * Number of titles, each counted once for all its versions.
 */
softwareCount: number
/**
 * When the inventory was collected; null if the agent never sent one.
 */
collectedAt: (string | null)
receivedAt: (string | null)
/**
 * What could not be read for this inventory: what earlier ones had from there is shown.
 */
failedSources: {
/**
 * Such as `snap`, `interfaces` or `mariadb`.
 */
source: string
/**
 * For people.
 */
message: string
}[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "InstalledSoftware".
 */
export interface InstalledSoftware {
name: string
version: (string | null)
publisher: (string | null)
/**
 * As the device reports it.
 */
installedAt: (string | null)
/**
 * When an inventory had this version for the first time. Null if that was before Muster recorded it.
 */
firstSeenAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "SoftwareChange".
 */
export interface SoftwareChange {
/**
 * When the inventory with the change was collected. The change happened after the inventory before it.
 */
at: string
change: ("installed" | "updated" | "removed")
name: string
/**
 * null for removed software.
 */
version: (string | null)
/**
 * null for newly installed software.
 */
previousVersion: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "SoftwareTitle".
 */
export interface SoftwareTitle {
name: string
deviceCount: number
versionCount: number
/**
 * The 20 versions on most devices, in that order.
 */
versions: {
version: (string | null)
deviceCount: number
/**
 * When an inventory of one of them had it for the first time. Null if one of them had it before Muster recorded that.
 */
firstSeenAt: (string | null)
}[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "SoftwareInstallation".
 */
export interface SoftwareInstallation {
deviceId: string
orgId: string
hostname: string
displayName: (string | null)
version: (string | null)
publisher: (string | null)
/**
 * As the device reports it.
 */
installedAt: (string | null)
/**
 * When an inventory had this version for the first time. Null if that was before Muster recorded it.
 */
firstSeenAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "DeviceService".
 */
export interface DeviceService {
/**
 * As the service manager names it; of systemd without the ending `.service`.
 */
name: string
displayName: (string | null)
/**
 * `failed`: it has ended with an error.
 */
state: ("running" | "stopped" | "failed" | "starting" | "stopping" | "paused")
/**
 * Null if it is not known.
 */
startMode: (("automatic" | "manual" | "disabled") | null)
/**
 * Since when it is in that state. A service that was in it before the first report has the time of that report.
 */
since: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "Timeline".
 */
export interface Timeline {
data: TimelineEntry[]
/**
 * `before` for the entries that follow; null if there are none.
 */
next: (string | null)
/**
 * Kinds that the caller may not read.
 */
hidden: ("presence" | "alert" | "command" | "backup" | "upgrade" | "software" | "terminal" | "group" | "change" | "note")[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "DeviceNote".
 */
export interface DeviceNote {
id: string
orgId: string
deviceId: string
text: string
/**
 * Whether the page of the device shows it first.
 */
isPinned: boolean
/**
 * Null if the account of the author was deleted.
 */
createdBy: (string | null)
/**
 * The name of the author when the note was written.
 */
authorName: string
createdAt: string
/**
 * When its text was changed last; null if it never was.
 */
editedAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "Group".
 */
export interface Group {
id: string
orgId: string
siteId: (string | null)
name: string
description: (string | null)
type: ("static" | "dynamic")
/**
 * Dynamic groups only: the members are the devices that the filter finds.
 */
filterId: (string | null)
/**
 * Excludes decommissioned devices.
 */
deviceCount: number
createdBy: (string | null)
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "GroupChange".
 */
export interface GroupChange {
device: {
id: string
/**
 * The host name at that time.
 */
hostname: string
}
change: ("joined" | "left")
/**
 * filter_match and filter_unmatch: the device changed and now does, or does not, match the filter.
 */
reason: ("manual" | "group_created" | "filter_match" | "filter_unmatch" | "filter_changed" | "device_moved" | "device_decommissioned")
at: string
/**
 * The user who caused the change; null if it was automatic.
 */
by: (string | null)
}
/**
 * Conditions of which all (AND) or at least one (OR) must hold. Each is a condition { field, operator, value } or another group, nested to any depth.
 * 
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "ConditionGroup".
 */
export interface ConditionGroup {
operator: ("AND" | "OR")
conditions: ({
/**
 * Case-sensitive, such as hostname or custom.rack.
 */
field: string
operator: string
/**
 * Omit it for isNull, isNotNull, isEmpty and isNotEmpty.
 */
value?: {
[k: string]: unknown
}
} | ConditionGroup)[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "Filter".
 */
export interface Filter {
id: string
orgId: string
name: string
description: (string | null)
conditions: ConditionGroup
createdBy: (string | null)
createdAt: string
updatedAt: string
/**
 * Present if the conditions refer to something that no longer exists. The filter finds no devices until this is corrected.
 */
faults?: {
path: string
message: string
}[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "Script".
 */
export interface Script {
id: string
orgId: (string | null)
/**
 * Set for scripts that belong to the whole partner.
 */
partnerId: (string | null)
name: string
description: (string | null)
language: ("bash" | "powershell" | "python")
content: string
/**
 * Empty for any operating system.
 */
osTypes: ("windows" | "macos" | "linux")[]
timeoutSeconds: number
parameters: ScriptParameter[]
/**
 * SHA-256 of everything but the name and the descriptions. It names the state of the script that you have read, such as when a schedule gives it secrets.
 */
fingerprint: string
createdBy: (string | null)
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "ScriptParameter".
 */
export interface ScriptParameter {
name: string
/**
 * A `boolean` is `true` or `false`. A `secret` is in SECRET_<name>, the others are in PARAM_<name>.
 */
type: ("text" | "number" | "boolean" | "secret")
description: (string | null)
required: boolean
/**
 * The value of a run that gives none.
 */
defaultValue: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "Command".
 */
export interface Command {
id: string
orgId: string
deviceId: string
type: string
/**
 * The name of the script that it runs; null if it runs none, or the script is gone.
 */
scriptName: (string | null)
status: ("queued" | "dispatched" | "accepted" | "running" | "succeeded" | "failed" | "cancelled" | "timed_out" | "expired")
/**
 * The reason for the status, if it is not obvious.
 */
reason: (string | null)
/**
 * Whether the command is queued for a device that is offline.
 */
waitsForDevice: boolean
createdBy: (string | null)
/**
 * How often it was sent to the device, which executes it once.
 */
attempt: number
cancelRequestedAt: (string | null)
progress: ({
/**
 * What the command does now, such as `running`.
 */
phase: string
percent?: number
/**
 * How much is done, in the unit of the command.
 */
done?: number
/**
 * How much there is to do, in the same unit.
 */
total?: number
/**
 * How much is done in a second.
 */
rate?: number
/**
 * The estimated time that remains.
 */
etaSeconds?: number
/**
 * How many files are done, if the command works on files.
 */
filesDone?: number
/**
 * How many files there are.
 */
filesTotal?: number
/**
 * The file that the command works on now.
 */
path?: string
/**
 * For people.
 */
message?: string
} | null)
/**
 * Depends on the type: `script.run` has exitCode, stdout, stderr and truncated.
 */
output: {
[k: string]: unknown
}
error: ({
code: string
message: string
} | null)
createdAt: string
/**
 * A command that has not reached the device by then expires.
 */
expiresAt: string
startedAt: (string | null)
finishedAt: (string | null)
}
/**
 * The devices that you can access at this moment, at most 10000. Those that cannot run the script are listed as refused, and stop none of the others.
 */
export interface DeviceTarget {
/**
 * All devices of the owner.
 */
all?: true
/**
 * The devices of the filter’s organization that match it, as they are at the time.
 */
filterId?: string
/**
 * The devices of these groups, as they are at the time.
 */
groupIds?: string[]
/**
 * The devices at these sites, as they are at the time.
 */
siteIds?: string[]
deviceIds?: string[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "ScriptRunCounts".
 */
export interface ScriptRunCounts {
/**
 * The device has not begun: it is busy, or away.
 */
waiting: number
running: number
/**
 * Ended with exit code 0.
 */
completed: number
/**
 * Ended with another exit code, by a signal, or could not be run.
 */
failed: number
timedOut: number
cancelled: number
/**
 * The device was away until the run expired.
 */
expired: number
/**
 * The device was given no command.
 */
refused: number
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "DeviceTarget".
 */
export interface DeviceTarget1 {
/**
 * All devices of the owner.
 */
all?: true
/**
 * The devices of the filter’s organization that match it, as they are at the time.
 */
filterId?: string
/**
 * The devices of these groups, as they are at the time.
 */
groupIds?: string[]
/**
 * The devices at these sites, as they are at the time.
 */
siteIds?: string[]
deviceIds?: string[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "ScriptRun".
 */
export interface ScriptRun {
id: string
partnerId: string
/**
 * Those of its organizations that you can access.
 */
orgIds: string[]
/**
 * Null if the script was deleted.
 */
scriptId: (string | null)
/**
 * As it was called when the run was started.
 */
scriptName: string
language: ("bash" | "powershell" | "python")
/**
 * SHA-256 of the language, the timeout and the content that devices run, separated by line breaks.
 */
version: string
/**
 * `starting`: its commands are being added. `failed`: not all of them could be added. A run on whose devices the script has failed is `completed`.
 */
state: ("starting" | "running" | "cancelling" | "completed" | "cancelled" | "failed")
counts: ScriptRunCounts
/**
 * The number of its devices that you can access.
 */
total: number
/**
 * Null without the permission to execute scripts, because they may be secrets.
 */
parameters: ({
[k: string]: string
} | null)
secretNames: string[]
/**
 * Which devices were asked for; they were looked up once. Null of a repetition, and if you cannot access all organizations of the run.
 */
target: (DeviceTarget1 | null)
/**
 * The run of which it is a repetition.
 */
againOf: (string | null)
/**
 * The schedule that has started it.
 */
scheduleId: (string | null)
createdBy: (string | null)
createdByName: (string | null)
createdAt: string
/**
 * A device that was not reached by then does not run it.
 */
expiresAt: string
/**
 * When all of its commands were added.
 */
startedAt: (string | null)
/**
 * When the last of its devices ended; null while one has not.
 */
finishedAt: (string | null)
cancelRequestedAt: (string | null)
/**
 * Why its commands were not all added.
 */
error: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "ScriptRunDetails".
 */
export interface ScriptRunDetails {
id: string
partnerId: string
/**
 * Those of its organizations that you can access.
 */
orgIds: string[]
/**
 * Null if the script was deleted.
 */
scriptId: (string | null)
/**
 * As it was called when the run was started.
 */
scriptName: string
language: ("bash" | "powershell" | "python")
/**
 * SHA-256 of the language, the timeout and the content that devices run, separated by line breaks.
 */
version: string
/**
 * `starting`: its commands are being added. `failed`: not all of them could be added. A run on whose devices the script has failed is `completed`.
 */
state: ("starting" | "running" | "cancelling" | "completed" | "cancelled" | "failed")
counts: ScriptRunCounts
/**
 * The number of its devices that you can access.
 */
total: number
/**
 * Null without the permission to execute scripts, because they may be secrets.
 */
parameters: ({
[k: string]: string
} | null)
secretNames: string[]
/**
 * Which devices were asked for; they were looked up once. Null of a repetition, and if you cannot access all organizations of the run.
 */
target: (DeviceTarget1 | null)
/**
 * The run of which it is a repetition.
 */
againOf: (string | null)
/**
 * The schedule that has started it.
 */
scheduleId: (string | null)
createdBy: (string | null)
createdByName: (string | null)
createdAt: string
/**
 * A device that was not reached by then does not run it.
 */
expiresAt: string
/**
 * When all of its commands were added.
 */
startedAt: (string | null)
/**
 * When the last of its devices ended; null while one has not.
 */
finishedAt: (string | null)
cancelRequestedAt: (string | null)
/**
 * Why its commands were not all added.
 */
error: (string | null)
/**
 * What devices run, also if the script was changed since. Null if you can neither see the script nor execute scripts.
 */
content: (string | null)
osTypes: ("windows" | "macos" | "linux")[]
timeoutSeconds: number
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "ScriptRunDevice".
 */
export interface ScriptRunDevice {
deviceId: string
orgId: string
deviceName: string
outcome: ("waiting" | "running" | "completed" | "failed" | "timed_out" | "cancelled" | "expired" | "refused")
commandId: (string | null)
/**
 * Of its command.
 */
status: (("queued" | "dispatched" | "accepted" | "running" | "succeeded" | "failed" | "cancelled" | "timed_out" | "expired") | null)
reason: (string | null)
exitCode: (number | null)
/**
 * Equal for devices that have reported the same.
 */
outputHash: (string | null)
startedAt: (string | null)
finishedAt: (string | null)
durationMs: (number | null)
/**
 * Why it was given no command.
 */
refusal: ({
code: string
message: string
} | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "ScriptRunOutputGroup".
 */
export interface ScriptRunOutputGroup {
outputHash: string
exitCode: (number | null)
/**
 * How many devices have reported exactly this.
 */
devices: number
/**
 * The first 5 of them by name.
 */
deviceNames: string[]
/**
 * The first 200 characters of the output, else of the errors or of the failure.
 */
preview: string
/**
 * Characters of output and errors together.
 */
size: number
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "ScriptRunOutput".
 */
export interface ScriptRunOutput {
outputHash: string
exitCode: (number | null)
stdout: string
stderr: string
/**
 * Only the end of the output was kept.
 */
truncated: boolean
/**
 * Why the script could not be run.
 */
error: ({
code: string
message: string
} | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "ScriptSchedule".
 */
export interface ScriptSchedule {
id: string
/**
 * Null: it runs on devices of all organizations of the partner.
 */
orgId: (string | null)
partnerId: string
name: string
/**
 * Null if the script was deleted.
 */
scriptId: (string | null)
/**
 * Null if the script was deleted, or you cannot see it.
 */
scriptName: (string | null)
enabled: boolean
cron: string
timezone: string
target: DeviceTarget1
/**
 * Null without the permission to execute scripts.
 */
parameters: ({
[k: string]: string
} | null)
/**
 * The secrets that are set, without their values.
 */
secrets: {
name: string
/**
 * Who has set it. Null if the account was deleted.
 */
setBy: (string | null)
setAt: string
}[]
/**
 * The `fingerprint` of the script that may be given the secrets; null without secrets.
 */
secretsFor: (string | null)
catchUpMinutes: number
/**
 * The person by whose rights it runs: who changed it last.
 */
runsAs: (string | null)
runsAsName: (string | null)
/**
 * The next three times; empty while it is disabled or paused.
 */
nextRuns: string[]
/**
 * Why the server does not run it, until a person changes it.
 */
paused: ({
reason: ("person_gone" | "permission_lost" | "access_lost" | "script_gone" | "script_changed" | "secrets_missing" | "secrets_unreadable")
message: string
at: (string | null)
} | null)
/**
 * The last of its times that has come.
 */
lastSlotAt: (string | null)
/**
 * Why it did not run at `lastSlotAt`: all servers were away for longer than `catchUpMinutes`, there were no devices or too many, or the partner was not active.
 */
lastSkip: (("missed" | "no_devices" | "too_many_devices" | "partner_inactive") | null)
createdBy: (string | null)
createdAt: string
updatedAt: string
}
/**
 * Looked up at each run.
 */
export interface DeviceTarget2 {
/**
 * All devices of the owner.
 */
all?: true
/**
 * The devices of the filter’s organization that match it, as they are at the time.
 */
filterId?: string
/**
 * The devices of these groups, as they are at the time.
 */
groupIds?: string[]
/**
 * The devices at these sites, as they are at the time.
 */
siteIds?: string[]
deviceIds?: string[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "SavedView".
 */
export interface SavedView {
id: string
list: string
name: string
search: {
[k: string]: unknown
}
/**
 * Whether colleagues see it: people of the same organization, or of the same partner.
 */
isShared: boolean
/**
 * Whether the caller made it, and can change it.
 */
isOwn: boolean
ownerName: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "SearchResult".
 */
export interface SearchResult {
id: string
type: ("devices" | "users" | "sites" | "organizations" | "groups" | "filters" | "scripts" | "alerts" | "settings")
title: string
/**
 * Of a device that was not found by its name: what matched, such as `Serial number 5CG1234`.
 */
description?: string
/**
 * Settings only: the path of the page.
 */
href?: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "TerminalSettings".
 */
export interface TerminalSettings {
/**
 * Whether terminals of the organization’s devices may be opened.
 */
enabled: boolean
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "TerminalRecording".
 */
export interface TerminalRecording {
/**
 * The id of the terminal.
 */
id: string
deviceId: string
/**
 * Null if the account was deleted.
 */
userId: (string | null)
userName: string
userEmail: string
openedAt: string
/**
 * Null while the terminal is open.
 */
endedAt: (string | null)
endReason: (("closed" | "exited" | "not_started" | "unattended" | "too_long" | "access_ended" | "switched_off" | "device_moved" | "device_lost" | "recording_failed" | "recording_full" | "protocol_violation" | "agent_stopped") | null)
exitCode: (number | null)
/**
 * How much output is recorded.
 */
characters: number
storedBytes: number
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "EventLogMetadata".
 */
export interface EventLogMetadata {
name: string
displayName: string
/**
 * How many entries the log has.
 */
recordCount: number
/**
 * How many bytes the log may grow to; 0 if it has no limit.
 */
maxSize: number
/**
 * For how long entries are kept; 0 if only the size limits the log.
 */
retentionDays: number
/**
 * ISO 8601; empty if the log has no entries.
 */
lastWriteTime: string
/**
 * The source from which the device reads the log.
 */
source?: ("journald" | "file" | "windows" | "macos")
/**
 * A remark for readers, such as that a count is estimated.
 */
note?: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "EventLogEntry".
 */
export interface EventLogEntry {
recordId: number
timeCreated: string
level: ("information" | "warning" | "error" | "critical" | "verbose")
source: string
eventId: number
message: string
category: string
user: (string | null)
computer: string
rawXml?: string
/**
 * The original record if it is not XML: a JSON object or lines of text.
 */
raw?: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "StoredEvent".
 */
export interface StoredEvent {
id: string
deviceId: string
orgId: string
/**
 * When it happened, by the device’s own clock.
 */
timestamp: string
level: ("info" | "warning" | "error" | "critical")
category: ("security" | "hardware" | "application" | "system")
source: string
eventId: (string | null)
message: string
details: ({
[k: string]: unknown
} | null)
createdAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "DiagnosticLog".
 */
export interface DiagnosticLog {
id: string
deviceId: string
orgId: string
/**
 * When the agent wrote it, by its own clock.
 */
timestamp: string
level: ("debug" | "info" | "warn" | "error")
component: string
message: string
fields: ({
[k: string]: unknown
} | null)
agentVersion: (string | null)
createdAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "EventLogQuestion".
 */
export interface EventLogQuestion {
id: string
/**
 * Null: it concerns all organizations of the partner.
 */
orgId: (string | null)
partnerId: string
name: (string | null)
target: DeviceTarget1
query: EventLogQuestionQuery
days: number
atMostRowsPerDevice: number
/**
 * `over`: every device has an outcome. `cancelled`: no further devices are asked.
 */
status: ("open" | "over" | "cancelled")
/**
 * How many devices were to be asked.
 */
devices: number
/**
 * How many devices have which outcome.
 */
outcomes: {
/**
 * Not connected since, or about to be asked.
 */
waiting: number
/**
 * Being asked at this moment.
 */
asked: number
answered: number
failed: number
/**
 * Not connected until the end of the question.
 */
neverCame: number
cancelled: number
/**
 * Deleted since, or moved out of your organizations.
 */
gone: number
}
/**
 * Null if the account was deleted.
 */
createdBy: (string | null)
/**
 * The name of the author when the question was made.
 */
authorName: string
createdAt: string
/**
 * Devices that come later are not asked. The question is removed 30 days later.
 */
endsAt: string
cancelledAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "EventLogQuestionQuery".
 */
export interface EventLogQuestionQuery {
name: string
level?: ("information" | "warning" | "error" | "critical" | "verbose")[]
/**
 * The whole source, in any case.
 */
source?: string
eventId?: number
/**
 * A part of the message, in any case.
 */
text?: string
startTime?: string
endTime?: string
}
/**
 * The devices are found out once, when the question is made: devices that match later are not asked.
 */
export interface DeviceTarget3 {
/**
 * All devices of the owner.
 */
all?: true
/**
 * The devices of the filter’s organization that match it, as they are at the time.
 */
filterId?: string
/**
 * The devices of these groups, as they are at the time.
 */
groupIds?: string[]
/**
 * The devices at these sites, as they are at the time.
 */
siteIds?: string[]
deviceIds?: string[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "EventLogQuestionDevice".
 */
export interface EventLogQuestionDevice {
deviceId: string
orgId: string
hostname: string
displayName: (string | null)
outcome: ("waiting" | "asked" | "answered" | "failed" | "never_came" | "cancelled")
/**
 * Of `failed`: the reason, for programs.
 */
code: (string | null)
/**
 * Of `failed`: the reason, for people.
 */
message: (string | null)
/**
 * When it was asked last.
 */
askedAt: (string | null)
endedAt: (string | null)
/**
 * How many entries are stored.
 */
entries: number
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "EventLogAnswer".
 */
export interface EventLogAnswer {
device: EventLogQuestionDevice
/**
 * Newest first.
 */
data: EventLogEntry[]
/**
 * The device stopped before it had read everything, or entries were left out.
 */
truncated: boolean
/**
 * Entries that the server did not keep, because they were too large.
 */
leftOut: number
/**
 * What the device said about its reading. Null if it has not answered.
 */
summary: ({
/**
 * How many records the device has read; estimated for those that it has skipped without parsing.
 */
scanned: number
/**
 * True if the device stopped before it had read all relevant entries.
 */
truncated: boolean
/**
 * How many entries of the whole log match, if the device knows.
 */
total?: number
/**
 * What is missing from the answer and why, such as parts of a log that were skipped.
 */
note?: string
/**
 * If the device stopped because its time was up: how far back it has looked. The first page of the same query with this as `endTime` goes on from there.
 */
lookedBackTo?: {
[k: string]: unknown
}
} | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "MachineProcess".
 */
export interface MachineProcess {
pid: number
parentPid?: number
name: string
/**
 * Cut to 1000 characters. Absent if the agent may not read it.
 */
commandLine?: string
/**
 * The user it runs as: the name, or the number if the machine has no name for it.
 */
user?: string
/**
 * Between two readings that are about a second apart, of all processors together. Absent if it started in between.
 */
cpuPercent?: number
/**
 * The part of its memory that is in RAM.
 */
memoryBytes?: number
/**
 * By the clock of the device, which may be wrong.
 */
startedAt?: string
/**
 * `waiting`: for a disk or a network drive, and cannot be interrupted. `zombie`: it has ended, and its parent has not collected it. Windows has no states.
 */
state?: ("running" | "sleeping" | "waiting" | "stopped" | "zombie")
/**
 * True for processes that the agent never ends: its own ones, and those that the system needs.
 */
isProtected?: boolean
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "ProcessEnd".
 */
export interface ProcessEnd {
/**
 * `ended`: by itself, after it was asked to. `killed`: it did not end within the grace period. `still_running`: the system has not ended it yet, as with one that waits for a disk.
 */
outcome: ("ended" | "killed" | "still_running")
name: string
user?: string
/**
 * How long the process had to end by itself. 0 if the system cannot ask it to.
 */
graceSeconds: number
pid: number
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "LiveService".
 */
export interface LiveService {
name: string
displayName?: string
/**
 * `failed`: it has ended with an error.
 */
state: ("running" | "stopped" | "failed" | "starting" | "stopping" | "paused")
startMode?: ("automatic" | "manual" | "disabled")
/**
 * True for the service of the agent, which is neither stopped nor restarted this way.
 */
isProtected?: boolean
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "ServiceControlled".
 */
export interface ServiceControlled {
before: ("running" | "stopped" | "failed" | "starting" | "stopping" | "paused")
/**
 * As the service manager lists it after the action. `starting` or `stopping`: the machine has not finished.
 */
after: ("running" | "stopped" | "failed" | "starting" | "stopping" | "paused")
name: string
action: ("start" | "stop" | "restart")
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "DeviceMetrics".
 */
export interface DeviceMetrics {
/**
 * Seconds between two points.
 */
step: number
series: {
metric: ("cpuPercent" | "ramPercent" | "swapPercent" | "load" | "uptimeSeconds" | "networkReceivedPerSecond" | "networkSentPerSecond" | "diskReadPerSecond" | "diskWrittenPerSecond" | "volumeUsedBytes" | "volumeTotalBytes" | "processCpuPercent" | "processRamPercent")
/**
 * The volume or the process that the series is about.
 */
labels?: {
volume?: string
process?: string
}
/**
 * The beginning of a step in milliseconds since 1970, and minimum, average and maximum in it. A step without a sample is left out.
 */
points: number[][]
}[]
/**
 * Times without samples, of three minutes and one step or longer.
 */
gaps: {
from: string
to: string
/**
 * Why the device was not connected; `connected` if it was, and sent nothing. Null if that is not known.
 */
reason: (("connected" | "heartbeat_missed" | "socket_closed" | "node_lost" | "updating" | "never_seen") | null)
}[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "MetricsNow".
 */
export interface MetricsNow {
/**
 * Of devices whose samples have arrived in the last ten minutes.
 */
data: {
deviceId: string
orgId: string
hostname: string
displayName: (string | null)
at: string
value: number
volume?: string
usedBytes?: number
totalBytes?: number
/**
 * Of a volume: when it is full if it grows as in the last 30 days. Null if it does not grow clearly, or not within a year.
 */
forecast?: ({
fullInDays: number
/**
 * From 0 to 1: the share of times between which the volume has grown.
 */
confidence: number
} | null)
}[]
/**
 * False if there are more devices than are looked at.
 */
isComplete: boolean
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "MetricHours".
 */
export interface MetricHours {
data: {
deviceId: string
/**
 * The end of the last hour.
 */
until: string
/**
 * Of each hour, the last one at the end. Null for an hour without figures.
 */
averages: (number | null)[]
}[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "MetricRetention".
 */
export interface MetricRetention {
/**
 * For how many days figures of each minute are kept. 14 unless set otherwise.
 */
minuteDays: number
/**
 * For how many days figures of each quarter of an hour are kept. 90 unless set otherwise.
 */
quarterDays: number
/**
 * For how many days figures of each hour are kept. 730 unless set otherwise.
 */
hourDays: number
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "Alert".
 */
export interface Alert {
id: string
orgId: string
/**
 * Null if the alert concerns the whole organization.
 */
deviceId: (string | null)
kind: string
/**
 * The rule that decided about it; null if there is none, or it was deleted.
 */
ruleId: (string | null)
severity: ("critical" | "high" | "medium" | "low" | "info")
status: ("active" | "acknowledged" | "resolved")
title: string
message: string
details: {
[k: string]: unknown
}
/**
 * How often the cause has occurred; each occurrence updates lastAt.
 */
count: number
raisedAt: string
lastAt: string
acknowledgedAt: (string | null)
acknowledgedBy: (string | null)
resolvedAt: (string | null)
resolvedBy: (string | null)
/**
 * The note from acknowledging or resolving the alert.
 */
note: (string | null)
/**
 * Why the alert resolved automatically; null if a user resolved it.
 */
resolution: (string | null)
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "AlertSummary".
 */
export interface AlertSummary {
/**
 * Alerts that are not resolved.
 */
open: number
byStatus: {
active: number
acknowledged: number
resolved: number
}
/**
 * Alerts that are not resolved, by severity.
 */
bySeverity: {
critical: number
high: number
medium: number
low: number
info: number
}
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "AlertCause".
 */
export interface AlertCause {
orgId: string
/**
 * The site of all of its devices; null if they are of several sites, or there are none.
 */
siteId: (string | null)
kind: string
/**
 * The worst of its alerts.
 */
severity: ("critical" | "high" | "medium" | "low" | "info")
/**
 * How many alerts it has.
 */
count: number
/**
 * The first of the devices that the alerts are about, at most 3.
 */
devices: {
id: string
name: string
}[]
deviceCount: number
/**
 * Whether the alerts were raised together, within minutes at one site, which suggests one cause.
 */
isTogether: boolean
/**
 * The title that all of its alerts have; null if they differ.
 */
title: (string | null)
firstAt: string
/**
 * When the last of them was raised.
 */
lastAt: string
/**
 * The oldest of its alerts, at most 100.
 */
alertIds: string[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "AlertRule".
 */
export interface AlertRule {
id: string
/**
 * Null: it covers all organizations of the partner.
 */
orgId: (string | null)
partnerId: string
name: string
enabled: boolean
severity: ("critical" | "high" | "medium" | "low" | "info")
target: DeviceTarget1
condition: AlertCondition
/**
 * Whether the alert resolves by itself when the condition is no longer met.
 */
autoResolve: boolean
/**
 * After an alert of the rule about a device was resolved, the rule raises none about it for this time.
 */
cooldownMinutes: number
/**
 * The kind of the alerts that it raises.
 */
alertKind: string
/**
 * Alerts of the rule that are not resolved, as far as the caller sees them.
 */
openAlerts: number
createdBy: (string | null)
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "AlertRulePreview".
 */
export interface AlertRulePreview {
from: string
to: string
/**
 * The devices of the target.
 */
devices: number
/**
 * Those whose history was examined.
 */
examined: number
/**
 * False if there were more devices or alerts than the preview examines, or an organization keeps the figures of each minute for less than seven days. Of services only the present states are known, and since when, so it is false for a rule about one.
 */
complete: boolean
/**
 * The alerts that the rule would have raised.
 */
count: number
/**
 * The devices about which it would have raised alerts.
 */
affected: number
/**
 * The devices whose condition was already met when the seven days began, as far as the day before shows. These alerts are not among the others. 0 for what the server reports by itself.
 */
before: number
byDay: {
/**
 * In UTC.
 */
day: string
count: number
}[]
/**
 * The newest ones, at most 200.
 */
alerts: {
deviceId: string
orgId: string
deviceName: string
raisedAt: string
/**
 * Null if the condition was still met at the end.
 */
resolvedAt: (string | null)
/**
 * Such as the figure and the volume.
 */
what: string
}[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "MaintenanceWindow".
 */
export interface MaintenanceWindow {
id: string
/**
 * Null: it covers all organizations of the partner.
 */
orgId: (string | null)
partnerId: string
name: string
target: DeviceTarget1
timezone: string
/**
 * On the clocks of the time zone. A time that they skip stands for the first moment after it; of a time that they show twice the first one counts.
 */
start: string
/**
 * Real minutes, also when clocks are set in between.
 */
durationMinutes: number
/**
 * Null: it happens once.
 */
repeat: (MaintenanceRepeat | null)
suppress: MaintenanceSuppression
/**
 * `over`: it does not happen again. Such windows are removed after 365 days.
 */
status: ("in_progress" | "scheduled" | "over")
/**
 * The occurrence that is in progress.
 */
current: (MaintenanceOccurrence | null)
/**
 * The next one that has not begun.
 */
next: (MaintenanceOccurrence | null)
createdBy: (string | null)
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "MaintenanceRepeat".
 */
export interface MaintenanceRepeat {
frequency: ("daily" | "weekly" | "monthly")
/**
 * With `weekly`: the days on which it begins.
 */
days?: ("mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun")[]
/**
 * With `monthly`: this or `nthWeekday`.
 */
dayOfMonth?: (number | "last")
/**
 * With `monthly`: such as the second Tuesday.
 */
nthWeekday?: {
nth: (number | "last")
day: ("mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun")
}
/**
 * The last date on which it may begin.
 */
until?: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "MaintenanceSuppression".
 */
export interface MaintenanceSuppression {
/**
 * No alerts of rules are raised, for offline devices, figures, events, software and services. Devices have 10 minutes after the end to come back.
 */
alerts: boolean
/**
 * Agents are offered no upgrades.
 */
upgrades: boolean
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "MaintenanceOccurrence".
 */
export interface MaintenanceOccurrence {
startsAt: string
endsAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "VmRestore".
 */
export interface VmRestore {
id: string
orgId: string
kind: ("as_vm" | "instant_boot")
/**
 * `running` to `unknown`: what the machine of an instant boot does. `faulty`: its disk cannot be read or written, and it waits; start it again when the reason is gone. `completed`: it needs its snapshot no more.
 */
status: ("pending" | "restoring" | "booting" | "running" | "paused" | "faulty" | "stopped" | "unknown" | "migrating" | "discarding" | "completed" | "discarded" | "failed" | "cancelled")
snapshotId: (string | null)
hypervisor: ("hyperv" | "kvm")
vmName: string
/**
 * The state of the machine, as its host reported it at `stateAt`.
 */
vmState: (("running" | "paused" | "faulty" | "stopped" | "unknown") | null)
stateAt: (string | null)
/**
 * The host.
 */
deviceId: string
hostDeviceId: string
hostDeviceName: string
vmSpecs: {
memoryMb: number
cpuCount: number
diskSizeGb: (number | null)
}
network: ({
type: "none"
} | {
type: "user"
/**
 * True: no network access. False: the machine reaches the networks and services of its host, with the address of the host.
 */
isIsolated: boolean
/**
 * Ports of the machine that are forwarded from the loopback address of its host.
 */
forwards: number[]
} | {
type: "bridge"
/**
 * Connects the machine to this bridge of the host, with its own address.
 */
bridge: string
})
/**
 * Percent of what is copied or restored.
 */
syncProgress: (number | null)
progress: ({
/**
 * What the command does now, such as `running`.
 */
phase: string
percent?: number
/**
 * How much is done, in the unit of the command.
 */
done?: number
/**
 * How much there is to do, in the same unit.
 */
total?: number
/**
 * How much is done in a second.
 */
rate?: number
/**
 * The estimated time that remains.
 */
etaSeconds?: number
/**
 * How many files are done, if the command works on files.
 */
filesDone?: number
/**
 * How many files there are.
 */
filesTotal?: number
/**
 * The file that the command works on now.
 */
path?: string
/**
 * For people.
 */
message?: string
} | null)
/**
 * A socket on the host that speaks VNC.
 */
console: (string | null)
/**
 * Ports of the machine, and where they are on the loopback address of the host.
 */
forwards: {
hostPort: number
guestPort: number
}[]
/**
 * Where its disks are on the host.
 */
folder: (string | null)
accelerator: (string | null)
warnings: string[]
/**
 * The error of the newest command.
 */
error: ({
code: string
message: string
} | null)
/**
 * The command that the device has been given last.
 */
commandId: string
/**
 * A command that the device has not fetched by then fails.
 */
expiresAt: string
createdBy: (string | null)
createdAt: string
updatedAt: string
startedAt: (string | null)
completedAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "VmEstimate".
 */
export interface VmEstimate {
memoryMb: number
cpuCount: number
/**
 * The size of all disks together.
 */
diskSizeGb: number
platform: (("linux" | "windows") | null)
osVersion: (string | null)
/**
 * Null: not known, and started as `bios`.
 */
bootMode: (("bios" | "uefi") | null)
disks: {
name: string
sizeBytes: number
}[]
consistency: string
/**
 * The bytes that the snapshot contains, as reported.
 */
storedBytes: (number | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "RecoveryToken".
 */
export interface RecoveryToken {
id: string
orgId: string
/**
 * The device that was backed up.
 */
deviceId: string
snapshotId: string
restoreType: ("full" | "selective" | "bare_metal")
targetConfig: {
/**
 * The disks of the image. Default: all.
 */
disks?: string[]
/**
 * The last partition reaches the end of a larger disk. Default: no.
 */
grow?: boolean
}
/**
 * `authenticated`: a machine is being recovered. `used`: that has ended. Only an active token starts a recovery.
 */
status: ("active" | "authenticated" | "used" | "expired" | "revoked")
sessionStatus: ("pending" | "running" | "completed" | "partial" | "failed")
expiresAt: string
authenticatedAt: (string | null)
completedAt: (string | null)
/**
 * How often the recovery was started, also again after interruptions.
 */
authentications: number
/**
 * The machine that is recovered, as it describes itself.
 */
machine: ({
hostname: string
agentVersion: string
bootMode: ("bios" | "uefi")
} | null)
progress: ({
phase: string
disk?: string
done: number
total: number
rate?: number
etaSeconds?: number
} | null)
result: ({
status: ("completed" | "partial" | "failed")
bytesRestored: number
/**
 * True if everything was read back and every check has succeeded.
 */
validated: boolean
disks: {
disk: string
target: string
sha256: string
continuedFrom: number
checks: {
name: string
ok: boolean
message?: string
}[]
/**
 * The total number, if more exist than are listed.
 */
checkCount?: number
}[]
warnings: string[]
error: ({
code: string
message: string
} | null)
} | null)
createdBy: (string | null)
createdAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "CreatedRecoveryToken".
 */
export interface CreatedRecoveryToken {
id: string
orgId: string
/**
 * The device that was backed up.
 */
deviceId: string
snapshotId: string
restoreType: ("full" | "selective" | "bare_metal")
targetConfig: {
/**
 * The disks of the image. Default: all.
 */
disks?: string[]
/**
 * The last partition reaches the end of a larger disk. Default: no.
 */
grow?: boolean
}
/**
 * `authenticated`: a machine is being recovered. `used`: that has ended. Only an active token starts a recovery.
 */
status: ("active" | "authenticated" | "used" | "expired" | "revoked")
sessionStatus: ("pending" | "running" | "completed" | "partial" | "failed")
expiresAt: string
authenticatedAt: (string | null)
completedAt: (string | null)
/**
 * How often the recovery was started, also again after interruptions.
 */
authentications: number
/**
 * The machine that is recovered, as it describes itself.
 */
machine: ({
hostname: string
agentVersion: string
bootMode: ("bios" | "uefi")
} | null)
progress: ({
phase: string
disk?: string
done: number
total: number
rate?: number
etaSeconds?: number
} | null)
result: ({
status: ("completed" | "partial" | "failed")
bytesRestored: number
/**
 * True if everything was read back and every check has succeeded.
 */
validated: boolean
disks: {
disk: string
target: string
sha256: string
continuedFrom: number
checks: {
name: string
ok: boolean
message?: string
}[]
/**
 * The total number, if more exist than are listed.
 */
checkCount?: number
}[]
warnings: string[]
error: ({
code: string
message: string
} | null)
} | null)
createdBy: (string | null)
createdAt: string
/**
 * Shown this once. It opens every byte of the snapshot.
 */
token: string
/**
 * For the rescue system. It asks for the token on its standard input.
 */
command: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "FoundMachine".
 */
export interface FoundMachine {
vmId: string
vmName: string
orgId: string
deviceId: string
hypervisor: ("hyperv" | "kvm")
generation: (number | null)
bootMode: (("bios" | "uefi") | null)
state: ("running" | "off" | "paused" | "saved" | "changing" | "unknown")
vhdPaths: string[]
disks: {
/**
 * The path that the hypervisor uses.
 */
path: string
/**
 * The space used on the disk of the host.
 */
sizeBytes: (number | null)
/**
 * A disk of the host itself, which exports do not contain.
 */
isPassthrough: boolean
}[]
memoryMb: (number | null)
processorCount: (number | null)
/**
 * Whether the hypervisor tracks changes; null: not known.
 */
rctEnabled: (boolean | null)
/**
 * Such a machine cannot be exported.
 */
hasPassthroughDisks: boolean
checkpoints: {
id: string
name: string
parentId: (string | null)
createdAt: (string | null)
}[]
/**
 * True if it has more disks or checkpoints than are listed.
 */
isCut?: boolean
/**
 * True: the device has more machines than the 1000 that it lists. Machines that it listed before stay.
 */
listIsCut?: boolean
lastDiscoveredAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "MachineWork".
 */
export interface MachineWork {
/**
 * On `jobs:subscribe`: that of the backup job or of the command.
 */
id: string
orgId: string
deviceId: string
type: ("backup" | "export" | "checkpoint" | "state")
backupJobId: (string | null)
commandId: (string | null)
vmId: (string | null)
vmName: (string | null)
status: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupRestore".
 */
export interface BackupRestore {
id: string
orgId: string
/**
 * The device that is restored to.
 */
deviceId: string
snapshotId: (string | null)
asOf: (string | null)
restoreType: ("full" | "selective" | "image")
/**
 * For an image: the disk that was named.
 */
disk: (string | null)
selectedPaths: (string[] | null)
/**
 * For files out of an image: the volume that they come from.
 */
volume: (BackupRestoredVolume | null)
/**
 * Null until the device has named the folder that it made.
 */
targetPath: (string | null)
/**
 * For a recovery plan: the part of the snapshot that is restored to `targetPath` itself.
 */
fromPath: (string | null)
overwrite: ("never" | "ifNewer" | "always")
dryRun: boolean
/**
 * For the restore of a machine of a hypervisor.
 */
machine: ({
hypervisor: ("hyperv" | "kvm")
/**
 * Its name or id in the snapshot; null: the only one.
 */
name: (string | null)
/**
 * Its new name when it is restored; null: as before.
 */
vmName: (string | null)
generateNewId: boolean
} | null)
/**
 * `partial`: some paths could not be restored.
 */
status: ("pending" | "running" | "completed" | "partial" | "failed" | "cancelled")
/**
 * Why it has not begun; null if it has.
 */
waitingFor: (("device" | "turn") | null)
/**
 * A restore that the device has not fetched by then fails.
 */
expiresAt: string
progress: ({
/**
 * What the command does now, such as `running`.
 */
phase: string
percent?: number
/**
 * How much is done, in the unit of the command.
 */
done?: number
/**
 * How much there is to do, in the same unit.
 */
total?: number
/**
 * How much is done in a second.
 */
rate?: number
/**
 * The estimated time that remains.
 */
etaSeconds?: number
/**
 * How many files are done, if the command works on files.
 */
filesDone?: number
/**
 * How many files there are.
 */
filesTotal?: number
/**
 * The file that the command works on now.
 */
path?: string
/**
 * For people.
 */
message?: string
} | null)
/**
 * Since when the restore has not advanced, if it runs and that is longer than 15 minutes.
 */
stalledSince: (string | null)
restoredSize: (number | null)
restoredFiles: (number | null)
/**
 * Files that were there and that `overwrite` keeps.
 */
skippedFiles: (number | null)
failed: {
count: (number | null)
/**
 * The first of them.
 */
paths: {
path: string
message: string
}[]
}
error: ({
code: string
message: string
} | null)
/**
 * For the restore of a database; null for files.
 */
database: ({
engine: ("postgresql" | "mariadb" | "mssql")
pointInTime: (string | null)
noRecovery: boolean
/**
 * How many are applied.
 */
snapshots: number
/**
 * For SQL Server: the name of the new database.
 */
targetDatabase?: string
result: ({
/**
 * False: it is recovered when its server starts with the folder.
 */
isRecovered: boolean
/**
 * The time of the last recovered transaction.
 */
recoveredTo: (string | null)
/**
 * The position up to which it holds everything.
 */
position: (string | null)
} | null)
} | null)
/**
 * The command that the device has been given last.
 */
commandId: string
attempts: number
createdBy: (string | null)
createdAt: string
updatedAt: string
startedAt: (string | null)
completedAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupRestoredVolume".
 */
export interface BackupRestoredVolume {
/**
 * For a snapshot of several machines: the id or the name of one.
 */
machine?: string
disk: string
/**
 * By its number. Left out for a disk without partitions.
 */
partition?: number
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupConfig".
 */
export interface BackupConfig {
id: string
orgId: string
name: string
provider: ("server" | "s3" | "local")
details: ({
bucket: string
region?: string
/**
 * For an S3 service other than Amazon’s.
 */
endpoint?: string
prefix?: string
accessKey: string
secretKey: {
hasSecret: true
}
} | {
/**
 * A folder as the device sees it: a disk or a share. Each device has a folder of its own in it.
 */
path: string
} | {

})
encryptionKeyId: string
enabled: boolean
isDefault: boolean
sources: BackupSources
schedule: (BackupSchedule | null)
retention: BackupRetention
/**
 * Devices that any of these fields names. Without any, backups of the configuration begin by hand only.
 */
targets: {
/**
 * Every device of the organization.
 */
all?: boolean
deviceIds?: unknown
groupIds?: unknown
/**
 * The devices that match a saved filter of the organization.
 */
filterId?: string
}
limits: {
/**
 * KiB a second.
 */
uploadKiBps?: number
/**
 * The share of all processors together.
 */
cpuPercent?: number
}
/**
 * The guarantees of the provider.
 */
providerCapabilities: {
/**
 * A device can neither delete nor overwrite stored data.
 */
isAppendOnly: boolean
/**
 * The repository can be read as of an earlier time.
 */
servesEarlierStates: boolean
/**
 * The side that removes snapshots beyond the retention.
 */
prunedBy: ("server" | "nobody")
}
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "FileSources".
 */
export interface FileSources {
kind: "files"
paths: {
/**
 * A byte that is not UTF-8 is written as \x and two hexadecimal digits: /srv/caf\xe9.
 */
linux?: {
[k: string]: unknown
}
macos?: unknown
windows?: unknown
}
/**
 * Patterns of files and folders that are left out, such as *.tmp or /var/cache.
 */
excludes?: string[]
/**
 * True: file systems that are mounted below a path are left out.
 */
oneFileSystem?: boolean
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "ImageSources".
 */
export interface ImageSources {
kind: "image"
/**
 * Whole disks, by their names on the device (`sda`) or as absolute paths of files that each hold a disk. `all`: every fixed disk.
 */
disks: ("all" | string[])
excludeDisks?: string[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "DatabaseSources".
 */
export interface DatabaseSources {
kind: "database"
engine: ("postgresql" | "mariadb")
/**
 * As `GET /backup/databases/instances` lists it. Default: the only one of the engine on the device.
 */
instance?: string
/**
 * A backup is a full one if the last full one is older.
 */
fullEveryDays: number
/**
 * The type of the other backups. Default: `log` for PostgreSQL, `differential` for MariaDB.
 */
between?: ("log" | "differential" | "none")
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "MssqlSources".
 */
export interface MssqlSources {
kind: "mssql"
/**
 * As `GET /backup/mssql/instances` lists it. Default: the default instance.
 */
instance: string
database: string
/**
 * A folder on the device which the service of SQL Server writes to and the agent reads. A backup lies there until it is in the repository.
 */
spoolPath: string
/**
 * A backup is a full one if the last full one is older.
 */
fullEveryDays: number
/**
 * The type of the other backups. Logs need the recovery model FULL or BULK_LOGGED.
 */
between: ("log" | "differential" | "none")
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "HypervSources".
 */
export interface HypervSources {
kind: "hyperv"
/**
 * Their names or ids, or `all`: those that there are at the time of the backup.
 */
machines: ("all" | string[])
/**
 * `application`: the programs in a machine are asked to write what they hold. If one cannot be asked, it is saved as with `crash`, and the backup is partial.
 */
consistency: ("application" | "crash")
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "KvmSources".
 */
export interface KvmSources {
kind: "kvm"
/**
 * Their names or ids, or `all`: those that there are at the time of the backup.
 */
machines: ("all" | string[])
/**
 * `application`: the programs in a machine are asked to write what they hold. If one cannot be asked, it is saved as with `crash`, and the backup is partial.
 */
consistency: ("application" | "crash")
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupSchedule".
 */
export interface BackupSchedule {
frequency: ("hourly" | "daily" | "weekly" | "monthly")
/**
 * Default: `windowStart`, else 00:00. With `hourly` only the minutes count.
 */
time?: string
/**
 * Default: the time zone of the device’s site.
 */
timezone?: string
/**
 * With `weekly`; 0 is Sunday.
 */
dayOfWeek?: number
/**
 * With `monthly`.
 */
dayOfMonth?: (number | "last")
/**
 * Backups begin within the window only.
 */
windowStart?: string
/**
 * On the next day if it lies before `windowStart`.
 */
windowEnd?: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupRetention".
 */
export interface BackupRetention {
/**
 * The newest snapshots.
 */
keepLast?: number
/**
 * The newest snapshot of each of so many days on which there was one.
 */
keepDaily?: number
/**
 * The same for weeks, which begin on Monday.
 */
keepWeekly?: number
/**
 * The same for months.
 */
keepMonthly?: number
/**
 * The same for years.
 */
keepYearly?: number
/**
 * Every snapshot that is younger.
 */
retentionDays?: number
/**
 * For so many days after its arrival a snapshot cannot be deleted, and its data stays recoverable.
 */
immutableDays?: number
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupConfigTest".
 */
export interface BackupConfigTest {
/**
 * The id of the configuration.
 */
id: string
status: ("success" | "failed")
checks: {
name: string
ok: boolean
code?: string
message?: string
}[]
checkedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupJob".
 */
export interface BackupJob {
id: string
orgId: string
deviceId: string
configId: (string | null)
repositoryId: (string | null)
/**
 * The command that the device has been given.
 */
commandId: (string | null)
type: ("scheduled" | "manual")
/**
 * Of a backup of a database, from when it is given to its device.
 */
backupType: (("full" | "differential" | "log") | null)
/**
 * Why it has this type.
 */
typeReason: (string | null)
/**
 * The time of the schedule that the job is for.
 */
slot: (string | null)
/**
 * The devices of a slot are spread over some minutes.
 */
dueAt: string
status: ("pending" | "running" | "completed" | "partial" | "failed" | "cancelled")
/**
 * Why the job has not begun; null if it has.
 */
waitingFor: (("device" | "due_time" | "turn") | null)
/**
 * A job that has not begun by then fails.
 */
expiresAt: string
cancelRequestedAt: (string | null)
progress: {
phase: (string | null)
percent: (number | null)
doneBytes: (number | null)
totalBytes: (number | null)
doneFiles: (number | null)
totalFiles: (number | null)
/**
 * Bytes in a second, over the last seconds.
 */
rate: (number | null)
/**
 * The time that remains, as the device estimates it.
 */
etaSeconds: (number | null)
currentPath: (string | null)
/**
 * When the device last reported.
 */
at: (string | null)
/**
 * Since when the job has not advanced, if it runs and that is longer than 15 minutes.
 */
stalledSince: (string | null)
}
snapshotId: (string | null)
/**
 * The bytes that the snapshot added to the repository.
 */
addedBytes: (number | null)
error: ({
code: string
message: string
} | null)
unreadable: {
count: number
/**
 * The first of them.
 */
paths: {
path: string
message: string
}[]
}
/**
 * Virtual file systems below the sources, such as /proc, which are never backed up. The messages are their types.
 */
leftOut: {
count: number
/**
 * The first of them.
 */
paths: {
path: string
message: string
}[]
}
/**
 * For files on Windows: whether they were read from shadow copies, and the volumes without one. Files in use there can be missing or torn. An empty volume: all of them.
 */
shadowCopies: ({
used: boolean
problems: {
volume: string
message: string
}[]
/**
 * True: there were more such volumes.
 */
isCut?: boolean
} | null)
createdBy: (string | null)
createdAt: string
startedAt: (string | null)
finishedAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupEncryptionKey".
 */
export interface BackupEncryptionKey {
id: string
orgId: string
name: string
keyType: "aes_256"
/**
 * SHA-256 of the newest version, in hexadecimal.
 */
fingerprint: string
/**
 * The newest one.
 */
version: number
/**
 * `rotating`: not every repository has the newest version yet.
 */
status: ("active" | "rotating")
/**
 * Those that the key opens.
 */
repositories: {
total: number
/**
 * Those that the newest version opens, and no other.
 */
onNewestVersion: number
/**
 * In buckets and on disks of devices: the server cannot rotate them, and they keep their version.
 */
outOfReach: number
}
createdAt: string
rotatedAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupRecoveryKit".
 */
export interface BackupRecoveryKit {
keyId: string
orgId: string
name: string
createdAt: string
/**
 * For every version of the key: an earlier state of a repository opens with an earlier one.
 */
passwords: {
version: number
password: string
createdAt: string
}[]
repositories: {
id: string
deviceId: string
deviceName: string
configName: (string | null)
/**
 * For a copy: the vault that it belongs to.
 */
vaultName: (string | null)
provider: ("server" | "s3" | "local")
/**
 * The version that opens it now.
 */
keyVersion: (number | null)
/**
 * Where the repository is, as restic takes it after `-r`.
 */
location: string
notes: string[]
/**
 * The newest ten.
 */
snapshots: {
id: string
receivedAt: string
}[]
/**
 * The commands that list and restore with stock restic.
 */
commands: string[]
}[]
pagination: Pagination1
}
/**
 * The page of repositories.
 */
export interface Pagination1 {
page: number
limit: number
total: number
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupSnapshot".
 */
export interface BackupSnapshot {
id: string
orgId: string
deviceId: string
configId: (string | null)
jobId: (string | null)
/**
 * For a copy in a vault: the snapshot that it is a copy of.
 */
copyOf: (string | null)
repositoryId: string
/**
 * The id of the snapshot in its restic repository.
 */
engineId: string
/**
 * Where its data is.
 */
provider: ("server" | "s3" | "local")
backupType: ("file" | "system_image" | "database" | "application")
/**
 * When the store received it.
 */
createdAt: string
/**
 * When it was made, by the clock of the device.
 */
takenAt: (string | null)
/**
 * The sources, as the device writes them.
 */
paths: string[]
/**
 * True: there are more than are listed.
 */
pathsAreCut?: boolean
/**
 * Of a snapshot that is more than files, as the device writes it.
 */
details: (({
kind: "database"
engine: ("postgresql" | "mariadb" | "mssql")
/**
 * As `backup.databases` lists it.
 */
instance: string
databases: string[]
/**
 * The total number, if more were backed up than are listed.
 */
databaseCount?: number
backupType: ("full" | "differential" | "log")
/**
 * Version of the database server.
 */
version: string
/**
 * The first position that the snapshot holds.
 */
from: (string | null)
/**
 * The position up to which it holds everything.
 */
to: (string | null)
/**
 * Logs join only within one branch: the cluster and timeline of PostgreSQL, the recovery fork of SQL Server.
 */
branch: (string | null)
/**
 * For a differential backup: the position `to` of the full one that it needs.
 */
basedOn: (string | null)
/**
 * The earliest point in time that can be chosen with the logs that follow. For a log: null.
 */
recoverableFrom: (string | null)
/**
 * Everything that was committed by this time is in the snapshot and the chain before it.
 */
recoverableTo: (string | null)
/**
 * For SQL Server: the id of the backup in its own history, to which a differential one refers.
 */
setId?: string
/**
 * Whether the server keeps its logs until the next backup: by a replication slot, if its size is limited.
 */
logsHeldBy?: ("slot" | "nobody")
} | {
kind: "image"
/**
 * The disks of the device itself, or those of a guest on it.
 */
source: ("disk" | "kvm" | "hyperv")
/**
 * The name of the machine whose disks these are.
 */
machine: string
disks: {
name: string
sizeBytes: number
/**
 * Offset of its first byte in the only file of the snapshot.
 */
offset: number
sectorBytes: number
}[]
/**
 * Null: unknown, or the disks start in both ways.
 */
bootMode: (("bios" | "uefi") | null)
/**
 * `crash`: as after a power failure. `none`: read while the machine kept writing; data that changed meanwhile may be damaged.
 */
consistency: ("application" | "filesystem" | "crash" | "none")
memoryBytes: (number | null)
processors: (number | null)
/**
 * The operating system and its version.
 */
system: (string | null)
} | {
kind: "machines"
hypervisor: ("hyperv" | "kvm")
machines: {
id: string
name: string
/**
 * For Hyper-V only.
 */
generation: (number | null)
bootMode: (("bios" | "uefi") | null)
memoryBytes: (number | null)
processors: (number | null)
/**
 * `crash`: as after a power failure. `none`: read while the machine kept writing; data that changed meanwhile may be damaged.
 */
consistency: ("application" | "filesystem" | "crash" | "none")
/**
 * The size of its files.
 */
bytes: number
}[]
}) | null)
sizeBytes: (number | null)
fileCount: (number | null)
/**
 * The bytes that it added to the repository.
 */
addedBytes: (number | null)
changedFiles: (number | null)
/**
 * Some files could not be read, or the result of the backup was lost, so that it is not known.
 */
isPartial: boolean
legalHold: boolean
legalHoldReason: (string | null)
isImmutable: boolean
immutableUntil: (string | null)
/**
 * `application`: the server refuses to remove it; stored data cannot be removed by the device. `none`: the device or the account of the bucket can remove the data.
 */
immutabilityEnforcement: ("application" | "none")
/**
 * Why no retention removes it now. `in_use`: a virtual machine runs from it.
 */
retentionBlockedReason: (("legal_hold" | "in_use" | "immutable") | null)
/**
 * Since when it is no longer in the repository. Until the trash of the store is emptied it can be read with `asOf`.
 */
removedAt: (string | null)
removedBecause: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupSnapshotEntry".
 */
export interface BackupSnapshotEntry {
/**
 * A byte that is not UTF-8 is written as \x and two hexadecimal digits, `caf\xe9.txt`; a backslash that could begin such a sequence as \x5c.
 */
name: string
path: string
type: ("file" | "directory" | "symlink" | "other")
sizeBytes: number
modifiedAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupSnapshotDifference".
 */
export interface BackupSnapshotDifference {
path: string
change: ("added" | "removed" | "changed" | "type_changed")
/**
 * In the snapshot that is compared with.
 */
before: ({
type: ("file" | "directory" | "symlink" | "other")
sizeBytes: number
modifiedAt: (string | null)
} | null)
after: ({
type: ("file" | "directory" | "symlink" | "other")
sizeBytes: number
modifiedAt: (string | null)
} | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "SnapshotMachine".
 */
export interface SnapshotMachine {
format: "muster-machine"
version: 1
/**
 * The disks of the device itself, or those of a guest on it.
 */
source: ("disk" | "kvm" | "hyperv")
machine: string
system: (string | null)
takenAt: string
bootMode: (("bios" | "uefi") | null)
/**
 * `crash`: as after a power failure. `none`: read while the machine kept writing; data that changed meanwhile may be damaged.
 */
consistency: ("application" | "filesystem" | "crash" | "none")
memoryBytes: (number | null)
processors: (number | null)
hardware: ({
vendor: (string | null)
product: (string | null)
serial: (string | null)
board: (string | null)
} | null)
fstab: (string | null)
disks: {
name: string
sizeBytes: number
sectorBytes: number
model: (string | null)
serial: (string | null)
partitionTable: ({
label: ("gpt" | "dos")
id: string
unit: "sectors"
firstlba?: number
lastlba?: number
sectorsize: number
partitions: {
number: number
start: number
size: number
type: string
uuid?: string
name?: string
bootable?: boolean
}[]
} | null)
volumes: {
/**
 * Null: the whole disk, without partitions.
 */
partition: (number | null)
offset: number
sizeBytes: number
type: ("ext" | "xfs" | "btrfs" | "vfat" | "ntfs" | "swap" | "lvm" | "luks" | "unknown")
uuid: (string | null)
label: (string | null)
/**
 * `allocated`: free blocks are zeros. `header`: only the head; the rest is zeros.
 */
content: ("whole" | "allocated" | "header")
}[]
/**
 * The bytes that are not known to be empty. Absent: the whole disk.
 */
contentBytes?: number
}[]
/**
 * Where each disk stands in the file.
 */
places: {
name: string
sizeBytes: number
offset: number
}[]
/**
 * The archive in the snapshot: /machine.tar, or one of several machines.
 */
file: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupVerification".
 */
export interface BackupVerification {
id: string
orgId: string
deviceId: string
configId: (string | null)
snapshotId: (string | null)
verificationType: ("integrity" | "test_restore")
/**
 * `failed` with an `errorCode`: it could not be carried out. Without: errors were found.
 */
status: ("pending" | "running" | "passed" | "failed" | "partial")
filesVerified: number
filesFailed: number
/**
 * The size of the restored files.
 */
sizeBytes: number
restoreTimeSeconds: (number | null)
details: {
/**
 * For an integrity verification: which part of the data was read. Each one reads the next part.
 */
part?: {
part: number
of: number
}
/**
 * The first errors that were found.
 */
errors?: string[]
/**
 * True: there were more errors than are listed.
 */
errorsAreCut?: boolean
/**
 * For images of several machines: how many of them the test has looked at.
 */
machines?: {
checked: number
of: number
}
sample?: {
path: string
sizeBytes: number
sha256: string
/**
 * null: it was not restored.
 */
restoredSha256?: (string | null)
}[]
}
errorCode: (string | null)
errorMessage: (string | null)
/**
 * null: by the server itself.
 */
createdBy: (string | null)
createdAt: string
startedAt: (string | null)
finishedAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupVault".
 */
export interface BackupVault {
id: string
orgId: string
deviceId: string
/**
 * The configuration whose backups are copied; null if it is gone.
 */
configId: (string | null)
name: string
provider: ("server" | "s3" | "local")
details: ({
bucket: string
region?: string
/**
 * For an S3 service other than Amazon’s.
 */
endpoint?: string
prefix?: string
accessKey: string
secretKey: {
hasSecret: true
}
} | {
/**
 * A folder as the device sees it: a disk or a share. Each device has a folder of its own in it.
 */
path: string
} | {

})
encryptionKeyId: (string | null)
isActive: boolean
syncAfterBackup: boolean
schedule: (BackupSchedule | null)
retentionCount: number
maxLagHours: number
sourceRepositoryId: string
/**
 * The repository that holds the copies.
 */
repositoryId: string
/**
 * The guarantees of the provider.
 */
providerCapabilities: {
isAppendOnly: boolean
servesEarlierStates: boolean
/**
 * The side that removes copies beyond `retentionCount`.
 */
prunedBy: ("server" | "nobody")
}
/**
 * By the schedule, or after a sync that has failed.
 */
nextSyncAt: (string | null)
/**
 * When a sync has succeeded last.
 */
lastSyncAt: (string | null)
/**
 * The status of the newest sync; null if there was none.
 */
lastSyncStatus: (("pending" | "running" | "completed" | "failed" | "cancelled") | null)
/**
 * Why the newest sync has failed.
 */
lastSyncError: ({
code: string
message: string
} | null)
/**
 * The newest snapshot of the device that the vault has.
 */
lastSyncSnapshotId: (string | null)
/**
 * The bytes of the copies in the store; null elsewhere.
 */
syncSizeBytes: (number | null)
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupVaultStatus".
 */
export interface BackupVaultStatus {
data: {
vaultId: string
/**
 * `empty`: it has no copy yet. `behind`: there are snapshots that are newer than its newest.
 */
state: ("inactive" | "empty" | "current" | "behind")
/**
 * How many copies the vault has.
 */
snapshots: number
/**
 * How far the vault is behind.
 */
lag: {
/**
 * Snapshots that are newer than the newest copy.
 */
snapshots: number
/**
 * Since the oldest of them was received.
 */
hours: number
/**
 * Longer than `maxLagHours`: an alert is open.
 */
isTooLong: boolean
}
/**
 * When a sync has succeeded last.
 */
lastSyncAt: (string | null)
/**
 * The error of the newest sync, if that has failed.
 */
lastError: ({
code: string
message: string
} | null)
nextSyncAt: (string | null)
/**
 * The newest ten; the first may be in flight.
 */
syncs: BackupVaultSync[]
}
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupVaultSync".
 */
export interface BackupVaultSync {
id: string
orgId: string
deviceId: string
vaultId: string
/**
 * `schedule`: also after a sync that has failed.
 */
reason: ("manual" | "backup" | "schedule")
snapshotId: (string | null)
status: ("pending" | "running" | "completed" | "failed" | "cancelled")
/**
 * Why it has not begun; null if it has.
 */
waitingFor: (("device" | "turn") | null)
/**
 * A sync that has not begun by then fails.
 */
expiresAt: string
cancelRequestedAt: (string | null)
/**
 * The command that the device has been given.
 */
commandId: (string | null)
/**
 * `done` and `total` count snapshots.
 */
progress: ({
/**
 * What the command does now, such as `running`.
 */
phase: string
percent?: number
/**
 * How much is done, in the unit of the command.
 */
done?: number
/**
 * How much there is to do, in the same unit.
 */
total?: number
/**
 * How much is done in a second.
 */
rate?: number
/**
 * The estimated time that remains.
 */
etaSeconds?: number
/**
 * How many files are done, if the command works on files.
 */
filesDone?: number
/**
 * How many files there are.
 */
filesTotal?: number
/**
 * The file that the command works on now.
 */
path?: string
/**
 * For people.
 */
message?: string
} | null)
/**
 * How many copies are new since the sync before.
 */
copiedSnapshots: (number | null)
error: ({
code: string
message: string
} | null)
createdBy: (string | null)
createdAt: string
startedAt: (string | null)
finishedAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupDashboard".
 */
export interface BackupDashboard {
data: {
totals: {
configs: number
jobs: number
snapshots: number
}
jobsLast24h: {
completed: number
failed: number
partial: number
running: number
queued: number
cancelled: number
}
storage: {
totalBytes: number
snapshots: number
}
coverage: {
/**
 * Devices of which anything is to be backed up.
 */
devices: number
/**
 * Those with a snapshot whose integrity was verified.
 */
protectedDevices: number
}
/**
 * Cloud backup configurations. Sums of devices, jobs and snapshots are without them.
 */
cloud: {
configs: number
/**
 * Those that are none of the following.
 */
protected: number
/**
 * The last run has failed, or the connection to the cloud service does.
 */
failing: number
/**
 * The last good run is older than the schedule allows, or than two days without one.
 */
late: number
/**
 * No run has ended well yet.
 */
unprotected: number
/**
 * The 20 with the lowest scores of those that are failing, late or unprotected.
 */
attentionItems: {
/**
 * The id of a cloud backup configuration.
 */
configId: string
orgId: string
name: string
/**
 * 0 to 100, as of devices.
 */
readinessScore: number
/**
 * The age of the last good run; null: there was none.
 */
estimatedRpoMinutes: (number | null)
riskFactors: {
code: string
severity: ("critical" | "high" | "medium" | "low")
message: string
}[]
calculatedAt: string
}[]
}
/**
 * Five.
 */
latestJobs: {
id: string
deviceId: string
configId: (string | null)
status: string
errorCode: (string | null)
errorMessage: (string | null)
createdAt: string
finishedAt: (string | null)
}[]
/**
 * The 20 devices with the lowest score below 85.
 */
attentionItems: {
deviceId: string
orgId: string
/**
 * 0 to 100: 100 less the points of each risk (docs/decisions/backup-care.md).
 */
readinessScore: number
/**
 * By the measured speed of restores; null: never measured.
 */
estimatedRtoMinutes: (number | null)
/**
 * The age of the newest snapshot; null: there is none.
 */
estimatedRpoMinutes: (number | null)
riskFactors: {
code: string
severity: ("critical" | "high" | "medium" | "low")
message: string
}[]
calculatedAt: string
}[]
}
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "DeviceBackupStatus".
 */
export interface DeviceBackupStatus {
data: {
deviceId: string
/**
 * There is a snapshot, and the integrity of the backups was verified.
 */
protected: boolean
/**
 * The configuration of the newest backup.
 */
configId: (string | null)
timezone: string
lastJob: ({
id: string
deviceId: string
configId: (string | null)
status: string
errorCode: (string | null)
errorMessage: (string | null)
createdAt: string
finishedAt: (string | null)
} | null)
lastSuccessAt: (string | null)
lastFailureAt: (string | null)
lastFailureError: (string | null)
lastVerifiedAt: (string | null)
nextScheduledAt: (string | null)
}
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupUsageHistory".
 */
export interface BackupUsageHistory {
data: {
days: number
start: string
end: string
providers: string[]
points: {
timestamp: string
totalBytes: number
providers: {
provider: string
bytes: number
}[]
}[]
}
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupHealth".
 */
export interface BackupHealth {
data: {
status: ("healthy" | "degraded" | "critical")
devices: number
/**
 * Devices with a critical risk.
 */
critical: number
/**
 * Devices with less than 85.
 */
atRisk: number
risks: {
code: string
devices: number
}[]
/**
 * The same of cloud backup configurations. The status is about them as well.
 */
cloud: {
configs: number
critical: number
atRisk: number
}
}
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupRecoveryReadiness".
 */
export interface BackupRecoveryReadiness {
data: {
summary: {
devices: number
averageScore: (number | null)
/**
 * Devices with less than 70.
 */
lowReadiness: number
/**
 * Devices with 85 or more.
 */
highReadiness: number
}
/**
 * The 500 with the lowest scores.
 */
devices: {
deviceId: string
orgId: string
/**
 * 0 to 100: 100 less the points of each risk (docs/decisions/backup-care.md).
 */
readinessScore: number
/**
 * By the measured speed of restores; null: never measured.
 */
estimatedRtoMinutes: (number | null)
/**
 * The age of the newest snapshot; null: there is none.
 */
estimatedRpoMinutes: (number | null)
riskFactors: {
code: string
severity: ("critical" | "high" | "medium" | "low")
message: string
}[]
calculatedAt: string
}[]
/**
 * The 500 cloud backup configurations with the lowest scores; none with `deviceId`.
 */
cloudConfigs: {
/**
 * The id of a cloud backup configuration.
 */
configId: string
orgId: string
name: string
/**
 * 0 to 100, as of devices.
 */
readinessScore: number
/**
 * The age of the last good run; null: there was none.
 */
estimatedRpoMinutes: (number | null)
riskFactors: {
code: string
severity: ("critical" | "high" | "medium" | "low")
message: string
}[]
calculatedAt: string
}[]
}
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupSlaConfig".
 */
export interface BackupSlaConfig {
id: string
orgId: string
name: string
rpoTargetMinutes: number
rtoTargetMinutes: number
targetDevices: string[]
targetGroups: string[]
alertOnBreach: boolean
isActive: boolean
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupSlaEvent".
 */
export interface BackupSlaEvent {
id: string
orgId: string
slaConfigId: (string | null)
deviceId: string
eventType: ("rpo_breach" | "rto_breach" | "missed_backup")
details: {
[k: string]: unknown
}
detectedAt: string
/**
 * null: it lasts.
 */
resolvedAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupDatabaseInstance".
 */
export interface BackupDatabaseInstance {
engine: ("postgresql" | "mariadb" | "mssql")
/**
 * The identifier in a configuration: where the server listens on the machine.
 */
instance: string
version: string
port: (number | null)
dataFolder: (string | null)
/**
 * The first 1000. Names are as the server has them.
 */
databases: {
name: string
sizeBytes: (number | null)
}[]
/**
 * The total number, if more exist than are listed.
 */
databaseCount?: number
/**
 * Why it cannot be backed up at present, such as a missing program.
 */
problems: {
code: string
message: string
}[]
id: string
orgId: string
deviceId: string
/**
 * When the device last listed it.
 */
lastDiscoveredAt: string
/**
 * How many servers the device has, if it has more than the 64 that it lists.
 */
instanceCount?: number
/**
 * Present if the device could not look for servers of this engine when it was last asked, and why. This is what it listed before.
 */
unreadBecause?: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupDatabaseChains".
 */
export interface BackupDatabaseChains {
repositoryId: string
orgId: string
deviceId: string
configId: (string | null)
/**
 * It holds copies.
 */
isVault: boolean
/**
 * The newest first.
 */
chains: {
/**
 * The id of its full backup.
 */
id: string
engine: ("postgresql" | "mariadb" | "mssql")
instance: string
version: string
branch: (string | null)
databases: string[]
/**
 * The total number, if more were backed up than are listed.
 */
databaseCount?: number
/**
 * Every point in time within these can be restored.
 */
ranges: {
from: string
to: string
}[]
/**
 * The full backup first.
 */
snapshots: {
id: string
backupType: ("full" | "differential" | "log")
/**
 * When the store received it.
 */
createdAt: string
from: (string | null)
to: (string | null)
recoverableTo: (string | null)
sizeBytes: (number | null)
}[]
}[]
/**
 * Snapshots that cannot be restored, the first 100.
 */
broken: {
snapshotId: string
reason: string
}[]
/**
 * How many there are, also beyond those that are listed.
 */
brokenTotal: number
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "SqlChains".
 */
export interface SqlChains {
data: {
deviceId: string
instance: string
database: string
recoveryModel: string
chains: {
full: {
id: number
uuid: string
backupType: ("full" | "differential" | "log")
firstLsn: string
lastLsn: string
isCopyOnly: boolean
isDamaged: boolean
fork: (string | null)
differentialBase: (string | null)
/**
 * In the time of the machine, without an offset.
 */
finishedAt: string
sizeBytes: (number | null)
file: (string | null)
}
differentials: {
id: number
uuid: string
backupType: ("full" | "differential" | "log")
firstLsn: string
lastLsn: string
isCopyOnly: boolean
isDamaged: boolean
fork: (string | null)
differentialBase: (string | null)
/**
 * In the time of the machine, without an offset.
 */
finishedAt: string
sizeBytes: (number | null)
file: (string | null)
}[]
logs: {
id: number
uuid: string
backupType: ("full" | "differential" | "log")
firstLsn: string
lastLsn: string
isCopyOnly: boolean
isDamaged: boolean
fork: (string | null)
differentialBase: (string | null)
/**
 * In the time of the machine, without an offset.
 */
finishedAt: string
sizeBytes: (number | null)
file: (string | null)
}[]
/**
 * A log is missing, and later ones are there.
 */
hasGap: boolean
recoverableTo: string
isOurs: boolean
}[]
/**
 * How many there are. The twenty newest are listed.
 */
chainCount: number
warnings: {
code: ("FOREIGN_FULL" | "LOG_GAP" | "DAMAGED" | "NO_FULL")
message: string
}[]
}
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "SqlWork".
 */
export interface SqlWork {
/**
 * The id of the command, also on `jobs:subscribe`.
 */
id: string
orgId: string
deviceId: string
type: ("backup" | "restore")
instance: string
database: string
status: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "DeviceVss".
 */
export interface DeviceVss {
data: {
/**
 * `failed`: at least one writer has failed. `busy`: at least one waits for a backup to go on. `unknown`: Windows listed no writers, or one in an unknown state.
 */
status: ("ready" | "busy" | "failed" | "unknown")
writers: {
name: string
writerId: string
instanceId: (string | null)
/**
 * The number of VSS_WRITER_STATE.
 */
state: number
status: ("stable" | "waiting" | "failed" | "unknown")
/**
 * In the language of the machine. Set even if there was none.
 */
lastError: string
}[]
/**
 * The total number, if more exist than are listed.
 */
writerCount?: number
providers: {
name: string
providerId: string
/**
 * In the language of the machine.
 */
type: string
version: string
}[]
/**
 * The total number, if more exist than are listed.
 */
providerCount?: number
deviceId: string
checkedAt: string
}
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "CloudConnection".
 */
export interface CloudConnection {
id: string
orgId: string
provider: "microsoft_365"
/**
 * `manual`: an app of the organization. `platform_app`: the app of this server.
 */
authMethod: ("manual" | "platform_app")
displayName: string
/**
 * The directory at Microsoft.
 */
tenantId: string
/**
 * The first characters of the id of the app.
 */
clientId: (string | null)
/**
 * `failing`: Microsoft refused the app at the last request.
 */
status: ("active" | "failing")
error: ({
code: string
message: string
} | null)
/**
 * When the last run that stored something ended.
 */
lastSyncAt: (string | null)
/**
 * Microsoft has asked this server to wait until then.
 */
throttledUntil: (string | null)
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "CloudBackupConfig".
 */
export interface CloudBackupConfig {
id: string
orgId: string
connectionId: string
name: string
encryptionKeyId: string
backupScope: ("mail" | "calendar" | "contacts" | "onedrive")[]
allUsers: boolean
targetUsers: string[]
schedule: (BackupSchedule | null)
/**
 * Without limits, everything is kept. The newest content of an existing item is always kept.
 */
retention: {
/**
 * Days after which items that were deleted, and contents that were replaced, are removed.
 */
keepDays?: number
/**
 * Newest contents of an item that are kept.
 */
keepVersions?: number
}
enabled: boolean
nextRunAt: (string | null)
/**
 * The newest recorded run.
 */
lastRun: ({
jobId: string
status: ("pending" | "running" | "completed" | "partial" | "failed" | "cancelled")
createdAt: string
completedAt: (string | null)
} | null)
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "CloudBackupJob".
 */
export interface CloudBackupJob {
id: string
orgId: string
configId: string
type: ("backup" | "restore")
trigger: ("manual" | "schedule")
/**
 * `partial`: something was not had; the outcomes say what. The next run tries it again.
 */
status: ("pending" | "running" | "completed" | "partial" | "failed" | "cancelled")
phase: (string | null)
/**
 * The destination of a restore. Without a user, each item is restored to its own user.
 */
target: ({
connectionId: string
user: (string | null)
folder: string
} | null)
itemsProcessed: number
itemsNew: number
itemsUpdated: number
itemsDeleted: number
itemsFailed: number
bytesTransferred: number
error: ({
code: string
message: string
} | null)
cancelRequestedAt: (string | null)
createdBy: (string | null)
createdAt: string
startedAt: (string | null)
completedAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "CloudBackupJobDetails".
 */
export interface CloudBackupJobDetails {
id: string
orgId: string
configId: string
type: ("backup" | "restore")
trigger: ("manual" | "schedule")
/**
 * `partial`: something was not had; the outcomes say what. The next run tries it again.
 */
status: ("pending" | "running" | "completed" | "partial" | "failed" | "cancelled")
phase: (string | null)
/**
 * The destination of a restore. Without a user, each item is restored to its own user.
 */
target: ({
connectionId: string
user: (string | null)
folder: string
} | null)
itemsProcessed: number
itemsNew: number
itemsUpdated: number
itemsDeleted: number
itemsFailed: number
bytesTransferred: number
error: ({
code: string
message: string
} | null)
cancelRequestedAt: (string | null)
createdBy: (string | null)
createdAt: string
startedAt: (string | null)
completedAt: (string | null)
/**
 * The total number of outcomes, including those that are not listed.
 */
outcomesTotal: number
/**
 * The outcome of a backup for each kind of each user; at most 4000, failures first.
 */
outcomes: {
userEmail: string
kind: ("mail" | "calendar" | "contacts" | "onedrive")
/**
 * `skipped`: the user has no such mailbox or drive.
 */
status: ("pending" | "running" | "completed" | "partial" | "skipped" | "failed")
itemsNew: number
itemsUpdated: number
itemsDeleted: number
itemsFailed: number
bytesTransferred: number
error: ({
code: string
message: string
} | null)
}[]
/**
 * The outcome of a restore for each item.
 */
items: {
itemId: string
itemType: ("mail" | "calendar" | "contacts" | "onedrive")
subjectOrName: string
/**
 * The user whose item it is.
 */
userEmail: string
/**
 * `present`: an earlier restore has already restored this content there.
 */
status: ("pending" | "restored" | "present" | "failed")
error: ({
code: string
message: string
} | null)
}[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "CloudBackupItem".
 */
export interface CloudBackupItem {
id: string
orgId: string
configId: string
itemType: ("mail" | "calendar" | "contacts" | "onedrive")
/**
 * The id at Microsoft.
 */
externalId: string
userEmail: string
subjectOrName: string
parentPath: string
/**
 * The size of the newest content; null: it could not be fetched yet.
 */
sizeBytes: (number | null)
itemDate: (string | null)
/**
 * It was deleted at Microsoft. It can still be restored.
 */
isDeleted: boolean
deletedAt: (string | null)
/**
 * Why the newest content could not be fetched. The next run tries again.
 */
errorCode: (string | null)
metadata: {
[k: string]: unknown
}
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "WebhookEventType".
 */
export interface WebhookEventType {
/**
 * `alert.raised`: An alert was raised, or is active again. A device that is offline has the kind device_offline.
 * `alert.acknowledged`: A user acknowledged an alert.
 * `alert.resolved`: An alert was resolved, by a user or because its cause ended.
 * `device.created`: A device was enrolled.
 * `device.decommissioned`: A device was decommissioned.
 * `device.restored`: A decommissioned device was restored.
 * `command.ended`: A command for a device ended. Its payload and output are left out.
 * `backup.job_ended`: A backup of a device ended.
 * `backup.restore_ended`: A restore to a device ended.
 * `cloud_backup.job_ended`: A backup or restore of Microsoft 365 ended.
 * `rollout.halted`: The server halted the rollout of an agent version, because devices failed with it.
 * `audit.recorded`: An entry of the audit trail was sealed.
 */
name: ("alert.raised" | "alert.acknowledged" | "alert.resolved" | "device.created" | "device.decommissioned" | "device.restored" | "command.ended" | "backup.job_ended" | "backup.restore_ended" | "cloud_backup.job_ended" | "rollout.halted" | "audit.recorded")
description: string
/**
 * A person who subscribes to it must hold this.
 */
permission: string
/**
 * Only webhooks of partners can have it.
 */
isOfPartner: boolean
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "Webhook".
 */
export interface Webhook {
id: string
/**
 * Null: it receives the events of all organizations of the partner.
 */
orgId: (string | null)
partnerId: string
name: string
url: string
/**
 * Items: `alert.raised`: An alert was raised, or is active again. A device that is offline has the kind device_offline.
 * `alert.acknowledged`: A user acknowledged an alert.
 * `alert.resolved`: An alert was resolved, by a user or because its cause ended.
 * `device.created`: A device was enrolled.
 * `device.decommissioned`: A device was decommissioned.
 * `device.restored`: A decommissioned device was restored.
 * `command.ended`: A command for a device ended. Its payload and output are left out.
 * `backup.job_ended`: A backup of a device ended.
 * `backup.restore_ended`: A restore to a device ended.
 * `cloud_backup.job_ended`: A backup or restore of Microsoft 365 ended.
 * `rollout.halted`: The server halted the rollout of an agent version, because devices failed with it.
 * `audit.recorded`: An entry of the audit trail was sealed.
 */
eventTypes: ("alert.raised" | "alert.acknowledged" | "alert.resolved" | "device.created" | "device.decommissioned" | "device.restored" | "command.ended" | "backup.job_ended" | "backup.restore_ended" | "cloud_backup.job_ended" | "rollout.halted" | "audit.recorded")[]
enabled: boolean
/**
 * `failing`: the last attempt failed. `paused`: the server waits before it tries again. `disabled_by_server`: see disabledReason.
 */
status: ("active" | "failing" | "paused" | "disabled" | "disabled_by_server")
/**
 * Why the server disabled it. `gone`: the receiver answered 410. `failing`: no delivery succeeded for 3 days.
 */
disabledReason: (("gone" | "failing") | null)
/**
 * Attempts that failed since the last one that succeeded.
 */
failures: number
failingSince: (string | null)
lastSuccessAt: (string | null)
/**
 * Until then the previous secret signs as well.
 */
previousSecretUntil: (string | null)
createdBy: (string | null)
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "WebhookTest".
 */
export interface WebhookTest {
ok: boolean
responseStatus: (number | null)
responseExcerpt: (string | null)
durationMs: number
error: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "WebhookDelivery".
 */
export interface WebhookDelivery {
id: string
webhookId: string
/**
 * Sent as `webhook-id`; the same in all attempts and replays.
 */
eventId: string
eventType: string
/**
 * Null if the event concerns the partner itself.
 */
eventOrgId: (string | null)
eventAt: string
status: ("pending" | "delivered" | "failed")
isReplay: boolean
attempts: number
nextAttemptAt: (string | null)
lastAttemptAt: (string | null)
/**
 * The status of the last attempt.
 */
responseStatus: (number | null)
/**
 * The duration of the last attempt.
 */
durationMs: (number | null)
/**
 * Why the last attempt failed.
 */
error: (string | null)
createdAt: string
endedAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "WebhookDeliveryDetail".
 */
export interface WebhookDeliveryDetail {
id: string
webhookId: string
/**
 * Sent as `webhook-id`; the same in all attempts and replays.
 */
eventId: string
eventType: string
/**
 * Null if the event concerns the partner itself.
 */
eventOrgId: (string | null)
eventAt: string
status: ("pending" | "delivered" | "failed")
isReplay: boolean
attempts: number
nextAttemptAt: (string | null)
lastAttemptAt: (string | null)
/**
 * The status of the last attempt.
 */
responseStatus: (number | null)
/**
 * The duration of the last attempt.
 */
durationMs: (number | null)
/**
 * Why the last attempt failed.
 */
error: (string | null)
createdAt: string
endedAt: (string | null)
/**
 * The first 1,024 bytes of the last response. It ends with an ellipsis if there was more.
 */
responseExcerpt: (string | null)
/**
 * The payload; null if you may not read such events yourself.
 */
data: ({
[k: string]: unknown
} | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "NotificationChannel".
 */
export interface NotificationChannel {
id: string
/**
 * Null: it belongs to the partner.
 */
orgId: (string | null)
partnerId: string
name: string
type: ("email" | "slack" | "teams" | "discord" | "pagerduty" | "ntfy" | "webhook")
details: {
address?: string
url?: string
server?: string
topic?: string
}
hasSecret: boolean
/**
 * `untested`: nothing was sent yet. `failing`: what was sent last has not arrived.
 */
status: ("ok" | "failing" | "untested")
/**
 * Why what was sent last has not arrived.
 */
lastError: (string | null)
failingSince: (string | null)
lastSuccessAt: (string | null)
/**
 * The receiver has asked the server to wait until then.
 */
pausedUntil: (string | null)
createdBy: (string | null)
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "NotificationChannelTest".
 */
export interface NotificationChannelTest {
ok: boolean
/**
 * Null if there was no answer, and for mails.
 */
responseStatus: (number | null)
durationMs: number
error: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "NotificationPolicy".
 */
export interface NotificationPolicy {
id: string
/**
 * Null: it belongs to the partner, and follows the policies of the organization.
 */
orgId: (string | null)
partnerId: string
/**
 * The first enabled policy that fits takes the alert.
 */
position: number
name: string
enabled: boolean
match: {
severities?: ("critical" | "high" | "medium" | "low" | "info")[]
kinds?: string[]
orgIds?: string[]
siteIds?: string[]
hours?: WeeklyHours
}
steps: {
afterMinutes: number
channelIds: string[]
userIds: string[]
}[]
/**
 * The channels of the steps, also those of the partner that you cannot see otherwise.
 */
channels: {
id: string
name: string
type: ("email" | "slack" | "teams" | "discord" | "pagerduty" | "ntfy" | "webhook")
}[]
/**
 * The people of the steps who still reach the tenant of the policy.
 */
users: {
id: string
name: string
}[]
repeatEveryMinutes: (number | null)
groupBy: ("none" | "device" | "site" | "rule")
groupSeconds: number
until: ("acknowledged" | "resolved")
createdBy: (string | null)
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "WeeklyHours".
 */
export interface WeeklyHours {
/**
 * On which it begins; 0 is Sunday. Every day when it is left out.
 */
days?: number[]
from: string
/**
 * On the next day if it lies before `from`. The same as `from`: for 24 hours.
 */
to: string
timezone: string
}
/**
 * An alert has to fit all that is given. Nothing given: every alert fits.
 * 
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "NotificationPolicyMatch".
 */
export interface NotificationPolicyMatch {
severities?: ("critical" | "high" | "medium" | "low" | "info")[]
kinds?: string[]
/**
 * Only in policies of the partner.
 */
orgIds?: string[]
/**
 * Alerts that concern a whole organization are at no site.
 */
siteIds?: string[]
hours?: WeeklyHours1
}
/**
 * When the alert was raised.
 */
export interface WeeklyHours1 {
/**
 * On which it begins; 0 is Sunday. Every day when it is left out.
 */
days?: number[]
from: string
/**
 * On the next day if it lies before `from`. The same as `from`: for 24 hours.
 */
to: string
timezone: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "NotificationPolicyStep".
 */
export interface NotificationPolicyStep {
/**
 * After the first message is due.
 */
afterMinutes: number
channelIds?: string[]
/**
 * Each person is told by mail, as their own settings say.
 */
userIds?: string[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "NotificationSimulation".
 */
export interface NotificationSimulation {
/**
 * The policy that takes the alert; null: nobody is told.
 */
policyId: (string | null)
policyName: (string | null)
/**
 * The policies in order up to the one that takes the alert, with why the others do not.
 */
considered: {
policyId: string
policyName: string
fault: (string | null)
}[]
/**
 * If nobody acknowledges or resolves it, for at most 7 days.
 */
timeline: {
at: string
reason: ("raised" | "escalated" | "repeated")
/**
 * The first is 1. Repetitions have the last one.
 */
step: number
channelId: (string | null)
userId: (string | null)
/**
 * Null if it does not exist any more.
 */
name: (string | null)
/**
 * Why nothing is sent; null if it is.
 */
suppressed: (string | null)
}[]
/**
 * There would be more than the timeline has.
 */
isCut: boolean
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "Notification".
 */
export interface Notification {
/**
 * Also the id of the work that sends it. Webhooks get it as `webhook-id`.
 */
id: string
/**
 * The organization of its alerts, or of the channel that was tested.
 */
orgId: string
partnerId: string
/**
 * The same for all messages of one conversation.
 */
groupId: (string | null)
/**
 * It may have been deleted since. Null for a test.
 */
policyId: (string | null)
/**
 * The step of the policy that told this recipient; the first is 1.
 */
step: (number | null)
reason: ("raised" | "escalated" | "repeated" | "acknowledged" | "resolved" | "test")
status: ("pending" | "sent" | "failed" | "suppressed")
/**
 * It may have been deleted since. Null for a person.
 */
channelId: (string | null)
/**
 * Null for a channel, and if the account was deleted.
 */
userId: (string | null)
/**
 * The name of the channel or person at that time.
 */
recipient: string
title: string
severity: ("critical" | "high" | "medium" | "low" | "info")
alertCount: number
/**
 * The alert, if the message is about one; otherwise the first of them.
 */
alertId: (string | null)
attempts: number
/**
 * Why it was not sent, or was suppressed.
 */
error: (string | null)
createdAt: string
sentAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "NotificationSettings".
 */
export interface NotificationSettings {
address: (string | null)
phone: (string | null)
/**
 * Nothing is sent then.
 */
quietHours: (WeeklyHours | null)
/**
 * Critical alerts are sent in quiet hours as well.
 */
criticalBreaksQuietHours: boolean
severities: (("critical" | "high" | "medium" | "low" | "info")[] | null)
/**
 * Whether you have given back the code that was mailed to `address`. Until then you are told at the address of your account.
 */
addressVerified: boolean
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "RecoveryPlan".
 */
export interface RecoveryPlan {
id: string
orgId: string
name: string
description: (string | null)
rpoTargetMinutes: (number | null)
rtoTargetMinutes: (number | null)
status: ("draft" | "active" | "archived")
rehearsalSchedule: (BackupSchedule | null)
nextRehearsalAt: (string | null)
groupCount: number
deviceCount: number
/**
 * How many sources are currently replaced by their targets.
 */
failedOverDevices: number
lastExecution: ({
id: string
executionType: ("rehearsal" | "failover" | "failback")
status: ("pending" | "running" | "completed" | "failed" | "aborted")
createdAt: string
finishedAt: (string | null)
} | null)
/**
 * The newest one that has ended, and its result.
 */
lastRehearsal: ({
id: string
status: ("pending" | "running" | "completed" | "failed" | "aborted")
finishedAt: string
rtoSeconds: (number | null)
rpoSeconds: (number | null)
rtoMet: (boolean | null)
rpoMet: (boolean | null)
} | null)
createdBy: (string | null)
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "RecoveryPlanDetail".
 */
export interface RecoveryPlanDetail {
id: string
orgId: string
name: string
description: (string | null)
rpoTargetMinutes: (number | null)
rtoTargetMinutes: (number | null)
status: ("draft" | "active" | "archived")
rehearsalSchedule: (BackupSchedule | null)
nextRehearsalAt: (string | null)
groupCount: number
deviceCount: number
/**
 * How many sources are currently replaced by their targets.
 */
failedOverDevices: number
lastExecution: ({
id: string
executionType: ("rehearsal" | "failover" | "failback")
status: ("pending" | "running" | "completed" | "failed" | "aborted")
createdAt: string
finishedAt: (string | null)
} | null)
/**
 * The newest one that has ended, and its result.
 */
lastRehearsal: ({
id: string
status: ("pending" | "running" | "completed" | "failed" | "aborted")
finishedAt: string
rtoSeconds: (number | null)
rpoSeconds: (number | null)
rtoMet: (boolean | null)
rpoMet: (boolean | null)
} | null)
createdBy: (string | null)
createdAt: string
updatedAt: string
/**
 * By sequence.
 */
groups: RecoveryGroup[]
/**
 * Sources that are replaced by their targets until a failback.
 */
failedOver: {
deviceId: string
deviceName: string
targetDeviceId: string
targetDeviceName: string
restoreType: ("files" | "vm" | "instant")
/**
 * The guest of the device, if it is one.
 */
machine: (string | null)
groupId: string
executionId: string
since: string
}[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "RecoveryGroup".
 */
export interface RecoveryGroup {
id: string
orgId: string
planId: string
name: string
sequence: number
dependsOnGroupId: (string | null)
devices: RecoveryDevice[]
/**
 * The scripts that the checks name, each once.
 */
scripts: RecoveryScript[]
estimatedDurationMinutes: (number | null)
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "RecoveryDevice".
 */
export interface RecoveryDevice {
/**
 * The source: the device whose backups are restored.
 */
deviceId: string
/**
 * Where they are restored to; of a machine: its host. Default: the device itself.
 */
targetDeviceId?: string
restore: RecoveryRestore
/**
 * Run one after another.
 */
checks: RecoveryCheck[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "RecoveryScript".
 */
export interface RecoveryScript {
scriptId: string
/**
 * The name that it had when its version was kept. Null: there is no version and no script.
 */
scriptName: (string | null)
/**
 * For the version that executions run: of its language, timeoutSeconds and content in UTF-8, joined by line feeds. Null: the group was saved before versions were kept; until it is saved again, each execution runs the version of the moment at which it begins.
 */
scriptSha256: (string | null)
/**
 * Since its version was kept. `repinScripts` takes the newest one. Null: there is no version yet, or the script was deleted, and its version still runs.
 */
scriptHasChanged: (boolean | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "RecoveryExecutionDetail".
 */
export interface RecoveryExecutionDetail {
id: string
orgId: string
/**
 * Null: the plan was deleted.
 */
planId: (string | null)
planName: string
executionType: ("rehearsal" | "failover" | "failback")
trigger: ("manual" | "schedule")
status: ("pending" | "running" | "completed" | "failed" | "aborted")
note: (string | null)
/**
 * The first group that is being worked on.
 */
activeGroupId: (string | null)
stepCounts: {
[k: string]: number
}
/**
 * Why it did not complete.
 */
haltReason: (string | null)
/**
 * Null until it has ended.
 */
report: (RecoveryReport | null)
abortRequestedAt: (string | null)
createdBy: (string | null)
createdAt: string
startedAt: (string | null)
finishedAt: (string | null)
/**
 * As they were when the execution began, by sequence.
 */
groups: {
id: string
name: string
sequence: number
dependsOnGroupId: (string | null)
estimatedDurationMinutes: (number | null)
status: ("waiting" | "running" | "completed" | "failed" | "skipped" | "aborted")
startedAt: (string | null)
finishedAt: (string | null)
steps: RecoveryStep[]
}[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "RecoveryReport".
 */
export interface RecoveryReport {
/**
 * Until the last device worked; null: not all did.
 */
rtoSeconds: (number | null)
/**
 * The age of the oldest data; null: there was none, or a failback.
 */
rpoSeconds: (number | null)
rtoTargetMinutes: (number | null)
rpoTargetMinutes: (number | null)
/**
 * Null: no target, or nothing to compare with it.
 */
rtoMet: (boolean | null)
rpoMet: (boolean | null)
/**
 * From the abort until everything had stopped and was cleaned up.
 */
abortSeconds: (number | null)
/**
 * What could not be taken down yet, because its device is away. It is, when the device returns.
 */
leftovers: number
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "RecoveryStep".
 */
export interface RecoveryStep {
id: string
groupId: string
deviceId: string
deviceName: string
targetDeviceId: string
targetDeviceName: string
restoreType: ("files" | "vm" | "instant")
/**
 * The guest of the device that is restored, as the plan names it.
 */
machine: (string | null)
state: ("waiting" | "running" | "checking" | "completed" | "failed" | "skipped" | "aborted")
/**
 * The state of the cleanup of resources that the step has started for the execution.
 */
cleanup: ("none" | "pending" | "running" | "completed" | "failed")
/**
 * The restored snapshot; null: there was none, or the data is backed up first.
 */
snapshotId: (string | null)
/**
 * When the restored data was backed up.
 */
recoveryPointAt: (string | null)
/**
 * How old the data was when the execution began.
 */
rpoSeconds: (number | null)
/**
 * From the beginning of the execution until it worked.
 */
rtoSeconds: (number | null)
failedOverAt: (string | null)
failedBackAt: (string | null)
/**
 * In order of execution.
 */
actions: RecoveryAction[]
error: ({
code: string
message: string
} | null)
startedAt: (string | null)
/**
 * When everything was restored and all checks had passed.
 */
readyAt: (string | null)
finishedAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "RecoveryAction".
 */
export interface RecoveryAction {
id: string
/**
 * `backup`: of a failback, of the data that is brought back. `discard`: takes down what a `restore` has made.
 */
kind: ("restore" | "backup" | "check" | "discard")
/**
 * The action as text for people.
 */
name: string
state: ("waiting" | "running" | "succeeded" | "failed" | "cancelled" | "skipped")
/**
 * The device that does it.
 */
deviceId: string
/**
 * GET /backup/restore/:id shows its progress.
 */
restoreId: (string | null)
/**
 * GET /backup/restore/vm/:id shows its progress.
 */
vmRestoreId: (string | null)
/**
 * GET /backup/jobs/:id shows its progress.
 */
backupJobId: (string | null)
commandId: (string | null)
/**
 * For a check by a script: the version that it runs, as the group of the plan shows it.
 */
scriptSha256: (string | null)
/**
 * The result, such as that of a check.
 */
message: (string | null)
error: ({
code: string
message: string
} | null)
startedAt: (string | null)
finishedAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "RecoveryExecution".
 */
export interface RecoveryExecution {
id: string
orgId: string
/**
 * Null: the plan was deleted.
 */
planId: (string | null)
planName: string
executionType: ("rehearsal" | "failover" | "failback")
trigger: ("manual" | "schedule")
status: ("pending" | "running" | "completed" | "failed" | "aborted")
note: (string | null)
/**
 * The first group that is being worked on.
 */
activeGroupId: (string | null)
stepCounts: {
[k: string]: number
}
/**
 * Why it did not complete.
 */
haltReason: (string | null)
/**
 * Null until it has ended.
 */
report: (RecoveryReport | null)
abortRequestedAt: (string | null)
createdBy: (string | null)
createdAt: string
startedAt: (string | null)
finishedAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "LogRetention".
 */
export interface LogRetention {
/**
 * For how many days lines of agents’ own logs are kept. 30 unless set otherwise.
 */
diagnosticDays: number
/**
 * For how many days stored events are kept. 90 unless set otherwise.
 */
eventDays: number
/**
 * For how many days ended commands, with their payload and output, are kept. 90 unless set otherwise.
 */
commandDays: number
/**
 * For how many days resolved alerts are kept. 365 unless set otherwise.
 */
alertDays: number
/**
 * What happens when the stored logs of the organization reach their budget in total: new logs are refused, or the oldest are removed by whole days of arrival. `refuse` unless set otherwise.
 */
whenFull: ("refuse" | "remove_oldest")
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "AuditEntry".
 */
export interface AuditEntry {
id: string
timestamp: string
action: string
resource: string
resourceType: string
/**
 * JSON.
 */
details: string
ipAddress: (string | null)
userAgent: (string | null)
sessionId: (string | null)
user: {
name: (string | null)
email: (string | null)
role: (string | null)
department: (string | null)
}
changes: {
before: unknown
after: unknown
}
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "AuditPagination".
 */
export interface AuditPagination {
page: number
limit: number
total?: number
totalPages?: number
/**
 * More entries match than a list counts, so `total` is a lower bound.
 */
totalIsMinimum?: true
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "AuditLog".
 */
export interface AuditLog {
id: string
timestamp: string
user: {
id: string
name: (string | null)
email: (string | null)
role: (string | null)
}
action: string
resource: {
type: string
id: (string | null)
name: (string | null)
}
category: ("authentication" | "device" | "automation" | "policy" | "alert" | "compliance" | "organization" | "system")
result: ("success" | "failure" | "denied")
ipAddress: (string | null)
userAgent: (string | null)
details: {
[k: string]: unknown
}
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "FullAuditLog".
 */
export interface FullAuditLog {
id: string
timestamp: string
user: {
id: string
name: (string | null)
email: (string | null)
role: (string | null)
}
action: string
resource: {
type: string
id: (string | null)
name: (string | null)
}
category: ("authentication" | "device" | "automation" | "policy" | "alert" | "compliance" | "organization" | "system")
result: ("success" | "failure" | "denied")
ipAddress: (string | null)
userAgent: (string | null)
details: {
[k: string]: unknown
}
orgId: (string | null)
partnerId: (string | null)
actorType: ("user" | "api_key" | "agent" | "system")
actorId: string
errorMessage: (string | null)
seq: number
checksum: string
prevChecksum: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "AuditChainReport".
 */
export interface AuditChainReport {
chainId: string
/**
 * The entries that were verified: all, or those up to the fault.
 */
entries: number
verifiedAt: string
/**
 * The first fault of the chain; null if the chain is intact.
 */
fault: ({
/**
 * The position in the chain; null if the whole chain is concerned.
 */
seq: (number | null)
entryId: (string | null)
reason: string
} | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "AuditRetention".
 */
export interface AuditRetention {
/**
 * How many days entries are kept. Default: 365.
 */
retentionDays: number
/**
 * Copy entries to the archive of the server before they are removed; if that fails, they are kept.
 */
archiveToS3: boolean
/**
 * Time of the last successful daily cleanup.
 */
lastCleanupAt: (string | null)
/**
 * Why the last cleanup failed; null after a successful one.
 */
lastFailure: ({
at: string
reason: string
} | null)
/**
 * `off`: this server does not set AUDIT_ADMIN_DATABASE_URL, so entries are never removed.
 */
cleanup: ("on" | "off")
/**
 * `off`: this server has no archive.
 */
archive: ("on" | "off")
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "MonthReport".
 */
export interface MonthReport {
organization: {
id: string
name: string
}
/**
 * The partner of the organization, with the branding of its login page.
 */
provider: {
name: string
logoUrl: (string | null)
accentColor: (string | null)
}
month: string
/**
 * The setting `timezone` of the organization, or UTC.
 */
timezone: string
from: string
/**
 * The end of the month.
 */
to: string
madeAt: string
/**
 * The month has not ended: the figures are of the time until `madeAt`.
 */
isRunning: boolean
/**
 * Parts that the caller may not read; they are null.
 */
hidden: ("devices" | "availability" | "alerts" | "backups" | "cloudBackups" | "software" | "upgrades" | "commands" | "people")[]
/**
 * Parts whose rows from before this time may have been removed because of their age.
 */
incomplete: {
part: ("devices" | "availability" | "alerts" | "backups" | "cloudBackups" | "software" | "upgrades" | "commands" | "people")
before: string
}[]
devices: DeviceReport
availability: AvailabilityReport
alerts: (AlertReport | null)
backups: (BackupReport | null)
cloudBackups: (CloudBackupReport | null)
software: SoftwareReport
upgrades: UpgradeReport
commands: CommandReport
people: (PeopleReport | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "DeviceReport".
 */
export interface DeviceReport {
/**
 * Devices in service at the end.
 */
total: number
/**
 * Devices that were added. One that was enrolled again is not new.
 */
added: number
/**
 * Devices taken out of service.
 */
removed: number
bySystem: {
osType: ("windows" | "macos" | "linux")
count: number
}[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "AvailabilityReport".
 */
export interface AvailabilityReport {
/**
 * The share of the known time outside of planned maintenance in which devices were connected; null if nothing is known.
 */
connectedShare: (number | null)
/**
 * The share of the time for which it is known whether devices were connected; null without devices.
 */
knownShare: (number | null)
/**
 * Devices that were in service at some time.
 */
devices: number
/**
 * Those of which nothing is known.
 */
unknownDevices: number
/**
 * How often connections ended outside of planned maintenance.
 */
disconnections: number
/**
 * By maintenance windows. It counts neither for nor against the availability.
 */
plannedMaintenance: {
/**
 * The time in which at least one device was in planned maintenance.
 */
minutes: number
/**
 * Devices that were in planned maintenance.
 */
devices: number
/**
 * The times of all devices together.
 */
deviceMinutes: number
/**
 * For how much of them the devices were not connected.
 */
disconnectedMinutes: number
}
/**
 * Maintenance before this time was not recorded, and counts as any other time. Null if all of the month was recorded.
 */
plannedMaintenanceSince: (string | null)
/**
 * Their times outside of planned maintenance.
 */
leastAvailable: {
id: string
name: string
connectedShare: number
disconnectedMinutes: number
disconnections: number
plannedMaintenanceMinutes: number
}[]
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "AlertReport".
 */
export interface AlertReport {
opened: number
/**
 * Alerts that were resolved, whenever they were raised.
 */
resolved: number
/**
 * Alerts that were not resolved at the end.
 */
standing: number
/**
 * Of the alerts that were raised and acknowledged; null if none was.
 */
medianAcknowledgeSeconds: (number | null)
/**
 * Of the alerts that were raised and have been resolved; null if none was.
 */
medianResolveSeconds: (number | null)
bySeverity: {
severity: ("critical" | "high" | "medium" | "low" | "info")
opened: number
}[]
/**
 * The most frequent ones.
 */
byKind: {
kind: string
opened: number
}[]
/**
 * How many kinds there were.
 */
kindCount: number
/**
 * The devices with the most alerts.
 */
devices: {
id: string
name: string
opened: number
}[]
/**
 * How many devices had alerts.
 */
deviceCount: number
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "BackupReport".
 */
export interface BackupReport {
/**
 * Backups that were begun, by how they stand now.
 */
jobs: {
completed: number
partial: number
failed: number
cancelled: number
open: number
}
/**
 * Devices that had a snapshot at the end.
 */
devices: number
/**
 * Those with a snapshot in a repository whose last integrity verification had passed.
 */
protectedDevices: number
/**
 * Restores that were begun, also those to virtual machines, by how they stand now.
 */
restores: {
completed: number
partial: number
failed: number
cancelled: number
open: number
}
/**
 * Null if it is not known, which it is for 100 days.
 */
storedBytes: (number | null)
/**
 * Null if it is not known, which it is for 100 days.
 */
storedBytesBefore: (number | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "CloudBackupReport".
 */
export interface CloudBackupReport {
/**
 * Those at the end. What has been removed since is not among them.
 */
configurations: number
/**
 * Those of which a run in this time has stored all that it should, or a part of it.
 */
backedUp: number
/**
 * Runs that were begun, by how they stand now.
 */
runs: {
completed: number
partial: number
failed: number
cancelled: number
open: number
}
/**
 * Restores that were begun, by how they stand now.
 */
restores: {
completed: number
partial: number
failed: number
cancelled: number
open: number
}
/**
 * Mails, events, contacts and files that the runs have stored for the first time.
 */
itemsNew: number
/**
 * Those that a run could not store.
 */
itemsFailed: number
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "SoftwareReport".
 */
export interface SoftwareReport {
installed: number
updated: number
removed: number
/**
 * Devices whose software changed.
 */
devices: number
/**
 * Those that changed most often.
 */
titles: {
name: string
installed: number
updated: number
removed: number
}[]
/**
 * How many titles changed.
 */
titleCount: number
/**
 * Devices with more changes since then than the 1000 that are kept of each: earlier ones are not counted.
 */
cutDevices: number
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "UpgradeReport".
 */
export interface UpgradeReport {
completed: number
failed: number
rolledBack: number
/**
 * Attempts that have not ended.
 */
open: number
/**
 * Devices with a completed upgrade.
 */
devices: number
/**
 * Those that were installed most often.
 */
versions: {
component: ("agent" | "watchdog")
version: string
completed: number
}[]
/**
 * How many versions were installed.
 */
versionCount: number
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "CommandReport".
 */
export interface CommandReport {
/**
 * A script that exits with another code than 0 has not succeeded.
 */
scripts: {
runs: number
succeeded: number
}
/**
 * All others.
 */
commands: {
runs: number
succeeded: number
}
/**
 * Devices that were sent one.
 */
devices: number
/**
 * Those that ran most often; without a name if the script was deleted.
 */
topScripts: {
name: (string | null)
runs: number
succeeded: number
}[]
/**
 * How many scripts ran; those that were deleted count as one.
 */
scriptCount: number
topCommands: {
type: string
runs: number
succeeded: number
}[]
/**
 * How many kinds of commands there were.
 */
commandCount: number
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "PeopleReport".
 */
export interface PeopleReport {
changes: number
/**
 * Those with the most changes.
 */
people: {
/**
 * The present name, or the address of that time.
 */
name: string
isApiKey: boolean
changes: number
/**
 * Those that the person did most often, at most three.
 */
actions: {
action: string
changes: number
}[]
}[]
/**
 * How many people and API keys made changes.
 */
peopleCount: number
/**
 * There are more entries than the newest 100000, which are counted.
 */
isCut: boolean
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "ReportSchedule".
 */
export interface ReportSchedule {
id: string
/**
 * Null: a report for each organization of the partner.
 */
orgId: (string | null)
partnerId: string
name: string
dayOfMonth: number
time: string
timezone: string
userIds: string[]
addresses: string[]
/**
 * The person who saved it last, by whose rights it is made; null if that is not known any more.
 */
setUpBy: ({
id: string
name: string
} | null)
isPaused: boolean
/**
 * Why the server has paused it.
 */
pausedBecause: (string | null)
/**
 * When it is mailed next; null while it is paused.
 */
dueAt: (string | null)
lastDueAt: (string | null)
createdAt: string
updatedAt: string
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "FleetTrends".
 */
export interface FleetTrends {
/**
 * Days without a count are left out, such as those before the first count of an organization.
 */
data: TrendDay[]
/**
 * When was last counted; null if that has not happened yet.
 */
countedAt: (string | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "TrendDay".
 */
export interface TrendDay {
/**
 * A day of UTC. The last one goes on.
 */
day: string
/**
 * Devices in service at the last count of the day.
 */
devices: number
/**
 * The most devices that were connected at one of the hourly counts, of each organization.
 */
devicesConnected: number
/**
 * Alerts that were not resolved at the last count of the day.
 */
alertsOpen: (number | null)
alertsRaised: (number | null)
/**
 * Backups of devices that ended with a snapshot.
 */
backupsCompleted: (number | null)
backupsFailed: (number | null)
}
/**
 * This interface was referenced by `Api`'s JSON-Schema
 * via the `definition` "Error".
 */
export interface Error {
/**
 * A sentence for a person.
 */
error: string
code: string
requestId: string
details?: unknown
}
