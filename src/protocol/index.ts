export * from './version.ts';
export * from './primitives.ts';
export * from './event-logs.ts';
export * from './commands.ts';
export * from './agent-messages.ts';
export * from './dashboard-messages.ts';
export * from './enrollment.ts';
export * from './stored-logs.ts';
