export { enrollLimits, type EnrollLimits } from './enroll-limits.ts';
export { enrollmentRoutes } from './enrollment.routes.ts';
